package sdk

import (
	"io"
	"math"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
)

// landingStore puts what a parent sends into an object's files.
type landingStore struct {
	*receiving
	landing *object.Landing
}

func (s *landingStore) Section(uint64) (io.Writer, int64, error) {
	return s.landing, math.MaxInt64, nil
}

func (s *landingStore) Landed(upTo uint64) error {
	s.landed(upTo)
	return nil
}

func (s *landingStore) End(end link.End) error { return s.ended(end) }

func (s *landingStore) Answer() link.Answer { return s.answer() }
