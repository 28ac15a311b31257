package gather

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/supply"
	"github.com/groupcast/groupcast/sdk"
)

// FileOptions say how a file is uploaded.
type FileOptions struct {
	// Path is where it goes below the client's directory, with slashes; empty is its own name.
	Path string
	// Progress, if it is set, is called a few times a second.
	Progress func(Progress)
}

// Upload uploads a file, and returns when it is on the gatherer's disk under its path,
// whole and compared. What was interrupted goes on where it was.
func (c *Client) Upload(ctx context.Context, file string, options FileOptions) (Uploaded, error) {
	source, err := object.Open(file)
	if err != nil {
		return Uploaded{}, &sdk.Error{Code: sdk.InvalidArgument, Message: err.Error()}
	}
	defer source.Close()
	info := source.Info()
	if info.Kind != object.File {
		return Uploaded{}, &sdk.Error{Code: sdk.InvalidArgument, Message: file + " is a directory: upload its files, as UploadTree does"}
	}
	if options.Path == "" {
		options.Path = info.Name
	}
	from := supply.NewObject(source)
	defer from.Close()
	hashing := hash(ctx, source, from)
	u := &upload{
		client: c, from: from, progress: options.Progress, length: func() uint64 { return info.Length },
		spec: &gatherv1.UploadSpec{
			Path: options.Path, Length: info.Length, Mode: uint32(info.Mode.Perm()), SourceTime: timestamppb.New(info.Time),
		},
		end: hashing.wait,
		same: func(ctx context.Context, root []byte) (bool, error) {
			end, err := hashing.wait(ctx)
			return err == nil && bytes.Equal(end.Root[:], root), err
		},
		opened: func(uint64) error {
			from.Begin(1)
			return nil
		},
	}
	done, err := u.run(ctx)
	hashing.stop()
	if errors.Is(err, errThere) {
		return Uploaded{Path: options.Path, Bytes: info.Length, There: true}, nil
	}
	if errors.Is(err, object.ErrChanged) {
		err = &sdk.Error{Code: sdk.Conflict, Reason: "SOURCE_CHANGED", Message: file + " changed while it was uploaded: upload it again, or follow it as a stream"}
	}
	return Uploaded{Path: done, Bytes: info.Length}, err
}

// hashing is a source that is hashed while it is sent.
type hashing struct {
	cancel context.CancelFunc
	done   chan struct{}
	end    link.End
	err    error
}

func hash(ctx context.Context, source *object.Source, from *supply.Object) *hashing {
	ctx, cancel := context.WithCancel(ctx)
	h := &hashing{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(h.done)
		root, err := source.Root(ctx)
		if h.err = err; err == nil {
			h.end = link.End{Length: source.Info().Length, Root: root}
			from.Known(root)
		}
	}()
	return h
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
	<-h.done
}

// UploadTree uploads all plain files below a directory, each for itself and under its
// path in it. each, if it is set, hears of every file that is finished. Symbolic links and
// what is no plain file are refused.
func (c *Client) UploadTree(ctx context.Context, dir string, options FileOptions, each func(Uploaded)) error {
	if options.Path == "" {
		options.Path = filepath.Base(filepath.Clean(dir))
	}
	return filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return &sdk.Error{Code: sdk.InvalidArgument, Message: at + " is no plain file: remove it, or upload files one by one"}
		}
		below, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		one := options
		one.Path = path.Join(options.Path, filepath.ToSlash(below))
		uploaded, err := c.Upload(ctx, at, one)
		if errors.Is(err, os.ErrNotExist) {
			return nil // it was removed since
		}
		if err == nil && each != nil {
			each(uploaded)
		}
		return err
	})
}
