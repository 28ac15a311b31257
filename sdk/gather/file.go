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

// Upload uploads a file, and returns when it is on the gatherer's disk under its path, whole and verified. An interrupted upload goes on
// where it was.
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

// checkPath returns why the gatherer would refuse a path.
func checkPath(path string, stream bool) error {
	if err := gathered.CheckPath(path, stream); err != nil {
		return &sdk.Error{Code: sdk.InvalidArgument, Reason: "PATH_REFUSED", Message: err.Error()}
	}
	return nil
}

// at returns where a path is on the gatherer.
func (c *Client) at(below string) string {
	name, err := c.Name()
	if err != nil {
		return below // without an identity nothing was uploaded
	}
	return path.Join(name, below)
}

// send uploads what a source has, and returns where it is on the gatherer.
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

// sourceError says that the source cannot be read: sending it again does not help.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// told adds to an error which file it is about, and if the file is the reason, what became of it.
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

// fileSupply tells failures of the file from those of the network.
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

// hashing is a source that is hashed while it is sent, and is watched for changes until all was sent.
type hashing struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it is hashed
	ended  sync.WaitGroup
	end    link.End
	err    error
}

// hash hashes a source. If it cannot, or if the source changes, it calls fail: the gatherer would wait for the end for ever.
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

// changedCheck is how often to look whether a file has changed while it is uploaded: what is sent after that is of no use.
const changedCheck = time.Second

// watch returns an error once a source has changed, and nil when ctx is done.
func watch(ctx context.Context, source *object.Source) error {
	for pause.For(ctx, changedCheck) {
		if err := source.Changed(); err != nil {
			return err
		}
	}
	return nil
}

// wait returns the root and length of all, once these are known.
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
