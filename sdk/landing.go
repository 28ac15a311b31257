package sdk

import (
	"io"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
)

// landingStore puts what a parent sends into an object's files.
type landingStore struct {
	*receiving
	landing *object.Landing
}

func (s *landingStore) Section(offset uint64) (io.Writer, int64, error) {
	file, n, err := s.landing.Section(offset)
	if err != nil {
		return nil, 0, &link.StorageError{Err: err}
	}
	return file, n, nil
}

func (s *landingStore) Landed(upTo uint64) error {
	if err := s.landing.Landed(upTo); err != nil {
		return &link.StorageError{Err: err}
	}
	s.landed(upTo)
	return nil
}

func (s *landingStore) End(end link.End) error { return s.ended(end) }

func (s *landingStore) Answer() link.Answer { return s.answer() }
