package standalone_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

// A server whose store refuses writes starts all the same, with the identities that its parts have. A part without one waits, while the manager
// serves: how else would somebody delete what fills the store?
func TestStartsWhileTheStoreHasNoRoom(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	testdisk.Mount(t, "tmpfs", "size=200m", "tmpfs", disk)
	data := filepath.Join(disk, "data")
	serve := func() (ready <-chan string, stop func()) {
		t.Helper()
		binary := testprocess.Binary(t, "github.com/groupcast/groupcast/services/standalone/cmd/groupcast-standalone")
		server := exec.Command(binary, "--data", data, "--grpc-listen", "127.0.0.1:0", "--admin-listen", "", "--agents-count", "0",
			"--gatherer-grpc-listen", "127.0.0.1:0", "--gatherer-data-listen", "127.0.0.1:0")
		server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		server.Stderr = t.Output()
		stdout, err := server.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		said := make(chan string, 1)
		go func() {
			line, _ := bufio.NewReader(stdout).ReadString('\n')
			said <- line
		}()
		stop = func() {
			server.Process.Signal(syscall.SIGTERM)
			server.Wait()
		}
		t.Cleanup(stop)
		return said, stop
	}
	wantReady := func(ready <-chan string) {
		t.Helper()
		select {
		case line := <-ready:
			if !strings.HasPrefix(line, "ready: ") {
				t.Fatalf("it said %q, want that it is ready", line)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it is not ready")
		}
	}
	ready, stop := serve()
	wantReady(ready)
	stop()

	filler := filepath.Join(disk, "filler")
	fill(t, filler, 40<<20)
	ready, stop = serve()
	wantReady(ready)
	stop()

	if err := os.RemoveAll(filepath.Join(data, "gatherer", "credentials")); err != nil {
		t.Fatal(err)
	}
	ready, _ = serve()
	wantRefusals(t, filepath.Join(data, "admin.yaml"))
	select {
	case line := <-ready:
		t.Fatalf("with a part that has no identity it said %q", line)
	default:
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	wantReady(ready)
}

// fill leaves so much free on a disk.
func fill(t *testing.T, name string, free int64) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(stat.Bavail)*stat.Bsize-free); err != nil {
		t.Fatal(err)
	}
}

// wantRefusals waits until the manager that an operator's configuration leads to serves, and says that it refuses writes.
func wantRefusals(t *testing.T, access string) {
	t.Helper()
	var status sdk.Status
	var err error
	for range 100 {
		var config sdk.Config
		if config, err = sdk.ReadConfig(access); err != nil {
			t.Fatal(err)
		}
		client, dialed := sdk.Dial(config)
		if dialed != nil {
			t.Fatal(dialed)
		}
		status, err = client.Status(t.Context())
		client.Close()
		if err == nil && status.ReadOnlyReason != "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("its status is %+v, %v", status, err)
}
