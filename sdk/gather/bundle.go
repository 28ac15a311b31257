package gather

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/digest"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/sdk"
)

// Small files of a tree are uploaded together: each by itself would take six round trips, and the work of a connection. A bundle has
// at most so many files, of at most so many bytes each, and so many in all.
const (
	bundledFile  = 256 << 10
	bundledFiles = 1000
	bundledBytes = 4 << 20
	bundledNames = 256 << 10 // bytes of their paths
)

// partsOf returns what is uploaded in one piece each.
func partsOf(files []found) (parts []part) {
	var small part
	var bytes uint64
	names := 0
	flush := func() {
		if len(small) > 0 {
			parts = append(parts, small)
		}
		small, bytes, names = nil, 0, 0
	}
	for _, file := range files {
		if file.length > bundledFile {
			parts = append(parts, part{file})
			continue
		}
		if len(small) == bundledFiles || bytes+file.length > bundledBytes || names+len(file.path) > bundledNames {
			flush()
		}
		small, bytes, names = append(small, file), bytes+file.length, names+len(file.path)
	}
	flush()
	return parts
}

// uploadBundle uploads files together, except for those that are there already, and returns those that are left to be uploaded one by
// one: all of them if they cannot be bundled, or so that the one that cannot be uploaded tells why.
func (t *tree) uploadBundle(ctx context.Context, all part) (left part) {
	missing, err := t.find(ctx, all)
	if err != nil {
		t.client.options.Log.Debug("files are uploaded one by one", "error", err)
		return all
	}
	if len(missing) < 2 {
		return missing
	}
	paths := make([]string, len(missing))
	for i, file := range missing {
		paths[i] = filepath.ToSlash(file.path)
	}
	source, err := object.Some(t.dir, "bundle", paths)
	if err != nil {
		t.client.options.Log.Debug("files are uploaded one by one", "error", err)
		return missing
	}
	defer source.Close()
	spec := &gatherv1.UploadSpec{Path: path.Join(t.options.Path, nameOf(missing)), Bundle: true}
	overhead := source.Info().Length // the bundle's own bytes, beside the files'
	for _, file := range missing {
		overhead -= min(overhead, file.length)
	}
	below, err := t.client.send(ctx, source, spec, func(p Progress) {
		p.Sent -= min(p.Sent, overhead)
		t.progress(p)
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(spec.Path)
	if err != nil {
		if errors.Is(err, errNoBundles) {
			t.apart.Store(true)
		}
		t.client.options.Log.Debug("files are uploaded one by one", "error", err)
		return missing
	}
	for _, file := range missing {
		t.finished(file, Uploaded{Path: path.Join(below, filepath.ToSlash(file.path)), Bytes: file.length})
	}
	return nil
}

// makeEmpty has the gatherer make the empty directories, in bundles of their own, so that it tells what is wrong with one. They are
// sent again each time that the tree is, as nobody tells which are there. A gatherer that knows no bundles, or only bundles of files,
// makes none.
func (t *tree) makeEmpty(ctx context.Context) error {
	if t.unwritable { // that was told
		return nil
	}
	for _, some := range partsOf(t.empty) {
		switch err := t.makeDirectories(ctx, some); {
		case errors.Is(err, errNoBundles):
			return nil
		case err != nil:
			return fmt.Errorf("empty directories of %s: %w", t.dir, err)
		}
	}
	return nil
}

// makeDirectories has the gatherer make directories; the tree itself is made with any.
func (t *tree) makeDirectories(ctx context.Context, all part) error {
	var paths []string
	for _, one := range all {
		if one.path != "." {
			paths = append(paths, filepath.ToSlash(one.path))
		}
	}
	source, err := object.Directories("bundle", paths)
	if err != nil {
		return err
	}
	defer source.Close()
	spec := &gatherv1.UploadSpec{Path: path.Join(t.options.Path, nameOf(all)), Bundle: true}
	_, err = t.client.send(ctx, source, spec, func(p Progress) {
		p.Sent = 0 // a directory has no bytes
		t.progress(p)
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(spec.Path)
	return err
}

// nameOf returns a bundle's name. The same files give the same name, so that an interrupted upload goes on.
func nameOf(files part) string {
	var hash digest.Hash
	for _, file := range files {
		_, _ = hash.Write(binary.BigEndian.AppendUint64([]byte(file.path+"\x00"), file.length)) // it never fails
	}
	root := hash.Sum()
	return "bundle-" + hex.EncodeToString(root[:8])
}

// find asks which files are there already, and returns the others.
func (t *tree) find(ctx context.Context, files part) (missing part, err error) {
	request := &gatherv1.FindFilesRequest{}
	for _, file := range files {
		request.Specs = append(request.Specs, &gatherv1.UploadSpec{
			Path: path.Join(t.options.Path, filepath.ToSlash(file.path)), Length: file.length,
		})
	}
	answer, err := t.ask(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(answer.GetExistingRoots()) != len(files) {
		return nil, errors.New("the gatherer answers for other files than it was asked for")
	}
	for i, file := range files {
		if root := answer.GetExistingRoots()[i]; len(root) == 0 || !t.isSame(ctx, file, root) {
			missing = append(missing, file)
			continue
		}
		t.mu.Lock()
		t.finished(file, Uploaded{Path: t.client.at(request.GetSpecs()[i].GetPath()), Bytes: file.length, There: true})
		t.mu.Unlock()
	}
	return missing, nil
}

// findTries is how often to ask what is there while the gatherer is too busy to say, as it reads for others. After that the files are
// uploaded without asking.
const findTries = 3

// ask asks what is there, in whichever session there is: a session may end at any time.
func (t *tree) ask(ctx context.Context, request *gatherv1.FindFilesRequest) (*gatherv1.FindFilesResponse, error) {
	for wait, tries, ended := firstPause, 1, ""; ; {
		session, err := t.awaitSession(ctx, ended)
		if err != nil {
			return nil, err
		}
		request.Session = session
		answer, err := t.client.rpc.FindFiles(ctx, request)
		switch {
		case err == nil:
			return answer, nil
		case isUnknown(err):
			t.apart.Store(true)
			return nil, sdk.Reported(err)
		}
		err = sdk.Reported(err)
		switch reason := reasonOf(err); {
		case reason == sessionEnded:
			ended = session
			continue
		case reason != passing, tries == findTries, !pause.For(ctx, wait):
			return nil, err
		}
		wait, tries = min(2*wait, longPause), tries+1
	}
}

// isUnknown reports whether a gatherer is of an earlier version: it refuses a call that it does not know.
func isUnknown(err error) bool {
	code := status.Code(err)
	return code == codes.Unimplemented || code == codes.PermissionDenied
}

// errNoBundles says that the gatherer is of an earlier version, which would take a bundle for a file of its own.
var errNoBundles = &sdk.Error{Code: sdk.Failed, Message: "the gatherer takes no bundles of files"}

// takesBundles asks the gatherer of a session whether it takes bundles. One of an earlier version, which takes the place of another at any
// time, does not refuse them.
func (c *Client) takesBundles(ctx context.Context, session string) error {
	_, err := c.rpc.FindFiles(ctx, &gatherv1.FindFilesRequest{Session: session})
	if isUnknown(err) {
		return errNoBundles
	}
	return sdk.Reported(err)
}

// isSame reports whether a file has a root. A file that cannot be read does not: its upload tells why.
func (t *tree) isSame(ctx context.Context, file found, root []byte) bool {
	source, err := object.Open(ctx, filepath.Join(t.dir, file.path))
	if err != nil {
		return false
	}
	defer source.Close()
	own, err := source.Root(ctx)
	return err == nil && bytes.Equal(own[:], root)
}
