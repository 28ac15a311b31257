package gather

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/gathered"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/supply"
	"github.com/groupcast/groupcast/sdk"
)

// FileOptions say how a file is uploaded.
type FileOptions struct {
	// Path is where it goes below the client's directory, with slashes; empty is its own name.
	Path string
	// Progress, if it is set, is called a few times a second, and once more at the end.
	Progress func(Progress)
}

// Upload uploads a file, and returns when it is on the gatherer's disk under its path,
// whole and compared. What was interrupted goes on where it was.
func (c *Client) Upload(ctx context.Context, file string, options FileOptions) (Uploaded, error) {
	source, err := object.Open(ctx, file)
	if err != nil {
		return Uploaded{}, cmp.Or[error](context.Cause(ctx), sdk.Because(sdk.InvalidArgument, err))
	}
	defer source.Close()
	info := source.Info()
	if info.Kind != object.File {
		return Uploaded{}, &sdk.Error{Code: sdk.InvalidArgument, Message: file + " is a directory: upload its files, as UploadTree does"}
	}
	if options.Path == "" {
		options.Path = info.Name
	}
	if err := checkPath(options.Path, false); err != nil {
		return Uploaded{}, err
	}
	spec := &gatherv1.UploadSpec{Path: options.Path, Mode: uint32(info.Mode.Perm())}
	done, err := c.send(ctx, source, spec, options.Progress)
	if errors.Is(err, errThere) {
		return Uploaded{Path: c.at(options.Path), Bytes: info.Length, There: true}, nil
	}
	if err != nil {
		return Uploaded{}, told(file, err)
	}
	return Uploaded{Path: done, Bytes: info.Length}, nil
}

// checkPath says why nothing can be uploaded under a path: the gatherer would refuse it.
func checkPath(path string, stream bool) error {
	if err := gathered.CheckPath(path, stream); err != nil {
		return &sdk.Error{Code: sdk.InvalidArgument, Reason: "PATH_REFUSED", Message: err.Error()}
	}
	return nil
}

// at returns where what has a path is on the gatherer.
func (c *Client) at(below string) string {
	name, err := c.Name()
	if err != nil {
		return below // who has no identity has uploaded nothing
	}
	return path.Join(name, below)
}

// send uploads what a source has, and returns where it is then.
func (c *Client) send(ctx context.Context, source *object.Source, spec *gatherv1.UploadSpec, progress func(Progress)) (path string, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	info := source.Info()
	spec.Length, spec.SourceTime = info.Length, timestamppb.New(info.Time)
	from := supply.NewObject(source)
	defer from.Close()
	hashing := hash(ctx, source, from, stop)
	u := &upload{
		client: c, from: fileSupply{from}, progress: progress, length: func() uint64 { return info.Length }, spec: spec,
		end: hashing.wait, usable: from.Usable,
		same: func(ctx context.Context, root []byte) (bool, error) {
			end, err := hashing.wait(ctx)
			return err == nil && bytes.Equal(end.Root[:], root), err
		},
		opened: func(uint64) error {
			from.Begin(1)
			return nil
		},
	}
	path, err = u.run(ctx)
	hashing.stop()
	if cause := context.Cause(ctx); err != nil && !errors.Is(err, errThere) && cause != nil && !errors.Is(cause, ctx.Err()) {
		err = cause
	}
	return path, err
}

// sourceError says that what is uploaded cannot be read: sending it again does not help.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// told returns an error with the file that it is about, and with what became of that if it is the reason.
func told(file string, err error) error {
	var unreadable *sourceError
	var known *sdk.Error
	switch {
	case errors.Is(err, object.ErrChanged):
		return &sdk.Error{Code: sdk.Conflict, Reason: "SOURCE_CHANGED", Message: file + " changed while it was uploaded: upload it again, or follow it as a stream"}
	case errors.As(err, &unreadable):
		return &sdk.Error{Code: sdk.Failed, Reason: "SOURCE_UNREADABLE", Message: fmt.Sprintf("%s cannot be read: %v", file, unreadable.error)}
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", file, err)
	}
	return err
}

// fileSupply tells what goes wrong with a file from what does with the network.
type fileSupply struct{ *supply.Object }

// Next implements link.Supply.
func (s fileSupply) Next(offset, most uint64) (link.Portion, error) {
	portion, err := s.Object.Next(offset, most)
	var bye *link.Bye
	if err != nil && !errors.As(err, &bye) {
		err = &sourceError{err}
	}
	return portion, err
}

// hashing is a source that is hashed while it is sent, and then looked at until it was.
type hashing struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it is hashed
	ended  sync.WaitGroup
	end    link.End
	err    error
}

// hash hashes a source. If that is impossible, or the source changes, fail is told: the gatherer would
// wait for its end for ever.
func hash(ctx context.Context, source *object.Source, from *supply.Object, fail func(error)) *hashing {
	ctx, cancel := context.WithCancel(ctx)
	h := &hashing{cancel: cancel, done: make(chan struct{})}
	h.ended.Go(func() {
		root, err := source.Root(ctx)
		if h.err = err; err == nil {
			h.end = link.End{Length: source.Info().Length, Root: root}
			from.Known(root)
		}
		close(h.done)
		if err == nil {
			err = watch(ctx, source)
		}
		if err != nil && ctx.Err() == nil {
			fail(&sourceError{err})
		}
	})
	return h
}

// changedCheck is how often it is looked whether a file has changed that is uploaded: what is sent of it
// from then on is of no use.
const changedCheck = time.Second

// watch returns when a source has changed, or ctx is done, which is nil.
func watch(ctx context.Context, source *object.Source) error {
	for pause.For(ctx, changedCheck) {
		if err := source.Changed(); err != nil {
			return err
		}
	}
	return nil
}

// wait returns what all is.
func (h *hashing) wait(ctx context.Context) (link.End, error) {
	select {
	case <-h.done:
		return h.end, h.err
	case <-ctx.Done():
		return link.End{}, ctx.Err()
	}
}

func (h *hashing) stop() {
	h.cancel()
	h.ended.Wait()
}
