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

// Small files of a tree are uploaded together: each by itself takes six round trips, and
// the work of a connection. A bundle has so many of so many bytes, and as many in all, at most.
const (
	bundledFile  = 256 << 10
	bundledFiles = 1000
	bundledBytes = 4 << 20
	bundledNames = 256 << 10 // bytes of their paths
)

// partsOf returns what is uploaded at a time.
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

// uploadBundle uploads files together, but for those that are there already, and returns those that are left to be
// uploaded one by one: all of them where they cannot be bundled, or where one of them would tell why it cannot be uploaded.
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
	overhead := source.Info().Length // what is not the files' own
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
		t.client.options.Log.Debug("files are uploaded one by one", "error", err)
		return missing
	}
	for _, file := range missing {
		t.finished(file, Uploaded{Path: path.Join(below, filepath.ToSlash(file.path)), Bytes: file.length})
	}
	return nil
}

// makeEmpty has the gatherer make the directories that are empty: as bundles of these alone, so that what is wrong with one is
// told. Each is sent again when the tree is: nobody tells which are there. One that knows no bundles, or makes files alone of
// them, makes none.
func (t *tree) makeEmpty(ctx context.Context) error {
	if len(t.empty) == 0 || t.unwritable { // that is told
		return nil
	}
	if _, err := t.find(ctx, nil); err != nil {
		if t.apart.Load() {
			return nil
		}
		return err
	}
	for _, some := range partsOf(t.empty) {
		if err := t.makeDirectories(ctx, some); err != nil {
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
		p.Sent = 0 // no file's
		t.progress(p)
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(spec.Path)
	return err
}

// nameOf names a bundle: the same files have the same, so that an upload that was interrupted goes on.
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

// findTries is how often it is asked what is there while the gatherer is in another's way, as it reads for others: then files are
// better uploaded without.
const findTries = 3

// ask asks what is there, of whichever session there is: one may end at any time.
func (t *tree) ask(ctx context.Context, request *gatherv1.FindFilesRequest) (*gatherv1.FindFilesResponse, error) {
	for wait, tries, ended := firstPause, 1, ""; ; {
		session, err := t.awaitSession(ctx, ended)
		if err != nil {
			return nil, err
		}
		request.Session = session
		answer, err := t.client.rpc.FindFiles(ctx, request)
		switch status.Code(err) {
		case codes.OK:
			return answer, nil
		case codes.Unimplemented, codes.PermissionDenied: // one that is older refuses what it does not know
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

// isSame reports whether a file has a root. What cannot be read has none: it is told when it is to be uploaded.
func (t *tree) isSame(ctx context.Context, file found, root []byte) bool {
	source, err := object.Open(ctx, filepath.Join(t.dir, file.path))
	if err != nil {
		return false
	}
	defer source.Close()
	own, err := source.Root(ctx)
	return err == nil && bytes.Equal(own[:], root)
}
