package gather

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
)

// Two uploads of one path at the same time are refused: each would take what the gatherer has of the other for its own.
func TestOnePathHasOneUpload(t *testing.T) {
	client := &Client{running: make(map[string]bool)}
	to := func(path string) *upload { return &upload{client: client, spec: &gatherv1.UploadSpec{Path: path}} }
	first, second := to("log"), to("log")
	if !first.claim() || second.claim() || !to("other").claim() {
		t.Error("two have one path, or two paths are one")
	}
	if _, err := second.run(t.Context()); err == nil || second.claim() {
		t.Errorf("the second is uploaded beside the first, or ends that: %v", err)
	}
	if first.release(); !second.claim() {
		t.Error("the path is not free after the first")
	}
}

// closed is a gatherer whose data port cannot be reached.
type closed struct{ crowded }

func (*closed) OpenUpload(context.Context, *gatherv1.OpenUploadRequest, ...grpc.CallOption) (*gatherv1.OpenUploadResponse, error) {
	return &gatherv1.OpenUploadResponse{Upload: strings.Repeat("07", 16), Addresses: []string{"192.0.2.7:7421"}, Gatherer: "g"}, nil
}

// refusing dials where nobody listens.
type refusing struct{}

func (refusing) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("connection refused")
}

// If the data port cannot be reached, although the gatherer has let the client in, the progress of an upload or a tree says so and why;
// so does the error of an upload whose time is over.
func TestDataPortThatIsNotReached(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, bundledFile+1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const want = "the gatherer's data port at 192.0.2.7:7421: dial gatherer/g: connection refused"
	for what, begin := range map[string]func(context.Context, *Client, FileOptions) error{
		"file": func(ctx context.Context, c *Client, options FileOptions) error {
			_, err := c.Upload(ctx, filepath.Join(dir, "one"), options)
			return err
		},
		"tree": func(ctx context.Context, c *Client, options FileOptions) error {
			return c.UploadTree(ctx, dir, options, nil)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &Client{
				gatherer: "g", rpc: new(closed), options: Options{As: "alice", Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{}), uplink: new(uplink.Uplink),
				dialer: refusing{}, turns: make(chan struct{}, uploadsMost), waiting: make(map[*upload]uint64), running: make(map[string]bool),
			}
			c.life, c.end = context.WithCancel(t.Context())
			defer c.attached.Wait()
			defer c.end()
			begun, last := time.Now(), Progress{}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			defer stop()
			err := begin(ctx, c, FileOptions{Progress: func(p Progress) {
				if passed := time.Since(begun); !p.Ended && (p.Stuck == want) != (passed >= stuckAfter) && passed != stuckAfter {
					t.Errorf("%s: after %v it is told %+v", what, passed, p)
				}
				last = p
			}})
			if sdk.CodeOf(err) != sdk.TimedOut || !strings.Contains(err.Error(), want) || !last.Ended {
				t.Errorf("%s: it ends with %v, at last %+v", what, err, last)
			}
		})
	}
}

// finishing is a gatherer whose answers to FinishUpload are given, the last of them again and again.
type finishing struct {
	crowded
	answers []error
	asked   []string // for which uploads
	opened  int
}

func (f *finishing) OpenUpload(context.Context, *gatherv1.OpenUploadRequest, ...grpc.CallOption) (*gatherv1.OpenUploadResponse, error) {
	f.opened++
	return nil, status.Error(codes.PermissionDenied, "no more in this test")
}

func (*finishing) FindFiles(context.Context, *gatherv1.FindFilesRequest, ...grpc.CallOption) (*gatherv1.FindFilesResponse, error) {
	return new(gatherv1.FindFilesResponse), nil
}

func (f *finishing) FinishUpload(_ context.Context, request *gatherv1.FinishUploadRequest, _ ...grpc.CallOption) (*gatherv1.FinishUploadResponse, error) {
	f.asked = append(f.asked, request.GetUpload())
	err := f.answers[0]
	f.answers = f.answers[min(1, len(f.answers)-1):]
	return &gatherv1.FinishUploadResponse{Path: "alice/dir"}, err
}

// If the connection breaks while an upload is finished, the gatherer is asked again what came of that. It is opened again, and a bundle
// sent again, only if the gatherer does not know, or says that it has to be.
func TestWhatIsFinishedIsNotSentAgain(t *testing.T) {
	because := func(code codes.Code, reason string) error {
		answer, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Reason: reason})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Err()
	}
	broken := status.Error(codes.Unavailable, "connection reset by peer")
	for what, tt := range map[string]struct {
		answers []error
		opened  int
	}{
		"it breaks twice":        {[]error{broken, broken, nil}, 0},
		"the session ends":       {[]error{broken, because(codes.FailedPrecondition, "SESSION_ENDED"), nil}, 0},
		"the gatherer is anew":   {[]error{broken, because(codes.NotFound, "UPLOAD_UNKNOWN"), nil}, 1},
		"what came is damaged":   {[]error{broken, because(codes.DataLoss, "DAMAGED"), nil}, 1},
		"the disk has no room":   {[]error{because(codes.Unavailable, "DISK_FULL"), nil}, 1},
		"not all of it has come": {[]error{because(codes.Aborted, "UNFINISHED"), nil}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			gatherer := &finishing{answers: tt.answers}
			c := &Client{gatherer: "g", rpc: gatherer, options: Options{Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{})}
			c.life, c.end = context.WithCancel(t.Context())
			defer c.attached.Wait()
			defer c.end()
			u := &upload{client: c, spec: &gatherv1.UploadSpec{Path: "dir/bundle", Bundle: true}, asked: &gatherv1.FinishUploadRequest{Upload: "07"}}
			path, err := u.carryOn(t.Context())
			if gatherer.opened != tt.opened || (path == "alice/dir") != (tt.opened == 0) || (err == nil) != (tt.opened == 0) {
				t.Errorf("%s: opened %d times, %q, %v", what, gatherer.opened, path, err)
			}
			if asked := slices.Compact(gatherer.asked); len(asked) != 1 || asked[0] != "07" {
				t.Errorf("%s: asked for %v", what, gatherer.asked)
			}
		})
	}
}

// other is a gatherer that has another file of that length, and at first no room for one in its place.
type other struct {
	crowded
	full     int    // how often it still has no room
	replaced []bool // what it was asked
}

func (o *other) OpenUpload(_ context.Context, request *gatherv1.OpenUploadRequest, _ ...grpc.CallOption) (*gatherv1.OpenUploadResponse, error) {
	o.replaced = append(o.replaced, request.GetReplace())
	switch {
	case !request.GetReplace():
		return &gatherv1.OpenUploadResponse{ExistingRoot: make([]byte, 32)}, nil
	case o.full > 0:
		o.full--
		answer, err := status.New(codes.Unavailable, "no room on disk").WithDetails(&errdetails.ErrorInfo{Reason: "DISK_FULL"})
		return nil, errors.Join(err, answer.Err())
	}
	return nil, status.Error(codes.PermissionDenied, "no more in this test")
}

// While there is no room for what is to replace another file, the gatherer reads that file only once to compare them.
func TestWhatDiffersIsComparedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gatherer := &other{full: 5}
		c := &Client{gatherer: "g", rpc: gatherer, options: Options{Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{})}
		c.life, c.end = context.WithCancel(t.Context())
		defer c.attached.Wait()
		defer c.end()
		u := &upload{client: c, spec: &gatherv1.UploadSpec{Path: "f"}, same: func(context.Context, []byte) (bool, error) { return false, nil }}
		_, err := u.carryOn(t.Context())
		if want := append([]bool{false}, slices.Repeat([]bool{true}, 6)...); !slices.Equal(gatherer.replaced, want) || err == nil {
			t.Errorf("asked to replace: %v, %v; want %v", gatherer.replaced, err, want)
		}
	})
}

// rolledBack is a gatherer that one of an earlier version takes the place of when a bundle is first opened.
type rolledBack struct {
	crowded
	opened int
}

func (r *rolledBack) FindFiles(_ context.Context, request *gatherv1.FindFilesRequest, _ ...grpc.CallOption) (*gatherv1.FindFilesResponse, error) {
	if r.opened > 0 {
		return nil, status.Error(codes.PermissionDenied, "nobody may call FindFiles")
	}
	return &gatherv1.FindFilesResponse{ExistingRoots: make([][]byte, len(request.GetSpecs()))}, nil
}

func (r *rolledBack) OpenUpload(context.Context, *gatherv1.OpenUploadRequest, ...grpc.CallOption) (*gatherv1.OpenUploadResponse, error) {
	if r.opened++; r.opened > 1 {
		return nil, status.Error(codes.PermissionDenied, "a bundle is taken for a file")
	}
	return nil, status.Error(codes.Unavailable, "connection refused")
}

// A gatherer of an earlier version takes bundles for files, and says that they have come. If one comes to the place of another, it is
// sent no bundle: the files are left to be uploaded one by one, and empty directories are not made.
func TestBundlesOnTheWayBack(t *testing.T) {
	dir := t.TempDir()
	files := part{{path: "one", length: 3}, {path: "two", length: 3}}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file.path), []byte("abc"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for what, do := range map[string]func(*testing.T, *tree){
		"files": func(t *testing.T, tree *tree) {
			if left := tree.uploadBundle(t.Context(), files); len(left) != len(files) || !tree.apart.Load() || tree.filesDone > 0 {
				t.Errorf("%d files are left, %d are said to be there", len(left), tree.filesDone)
			}
		},
		"empty directories": func(t *testing.T, tree *tree) {
			if err := tree.makeEmpty(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			gatherer := new(rolledBack)
			c := &Client{
				gatherer: "g", rpc: gatherer, options: Options{As: "alice", Log: slog.New(slog.DiscardHandler)}, changed: make(chan struct{}),
				turns: make(chan struct{}, uploadsMost), waiting: make(map[*upload]uint64), running: make(map[string]bool),
			}
			c.life, c.end = context.WithCancel(t.Context())
			defer c.attached.Wait()
			defer c.end()
			tree := &tree{client: c, dir: dir, options: FileOptions{Path: "dir"}, empty: []found{{path: "empty"}}, sent: make(map[string]uint64), stuck: make(map[string]string)}
			if do(t, tree); gatherer.opened != 1 {
				t.Errorf("%s: opened %d times", what, gatherer.opened)
			}
		})
	}
}
