package manager_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// needRoot says what a test that mounts file systems needs. Where the project is
// checked it must not be skipped.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("this test mounts file systems: it needs root")
	}
	t.Skip("this test mounts file systems: it needs root")
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if output, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, output)
	}
}

// mount mounts a file system until the test ends.
func mount(t *testing.T, kind, options, device, dir string) (unmount func()) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-t", kind, "-o", options, device, dir)
	unmount = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	t.Cleanup(unmount)
	return unmount
}

// C20: the power is cut after changes were acknowledged. All of them are there
// when it comes back: the disk is taken as it was, without what was only in memory.
func TestC20PowerCut(t *testing.T) {
	needRoot(t)
	work := t.TempDir()
	image, cut := filepath.Join(work, "disk.img"), filepath.Join(work, "cut.img")
	run(t, "truncate", "-s", "300M", image)
	run(t, "mkfs.ext4", "-q", image)
	disk := filepath.Join(work, "disk")
	unmount := mount(t, "ext4", "loop,commit=300", image, disk) // the file system itself writes nothing back for 5 minutes
	p := managertest.NewProcess(t, filepath.Join(disk, "manager"))
	p.Start(t)
	p.WaitServing(t)
	client := p.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	var acknowledged []sdk.Member
	for i := range 300 {
		session, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: fmt.Sprintf("m-%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		acknowledged = append(acknowledged, session.Member())
	}
	p.Kill()
	run(t, "cp", "--sparse=always", image, cut)
	unmount()

	mount(t, "ext4", "loop", cut, disk+"-after")
	restarted := managertest.NewProcess(t, filepath.Join(disk+"-after", "manager"))
	restarted.Start(t)
	restarted.WaitServing(t)
	members, err := restarted.Client(t).Members(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]uint64)
	for _, member := range members {
		there[member.Name] = member.Incarnation
	}
	for _, member := range acknowledged {
		if there[member.Name] != member.Incarnation {
			t.Errorf("%s was acknowledged as incarnation %d and is %d after the cut", member.Name, member.Incarnation, there[member.Name])
		}
	}
}

// C22: the disk is full. Writes are refused and say so, reads go on, and writes
// work again once there is room, in the same process.
func TestC22FullDisk(t *testing.T) {
	t.Parallel()
	needRoot(t)
	disk := filepath.Join(t.TempDir(), "disk")
	mount(t, "tmpfs", "size=200m", "tmpfs", disk)
	p := managertest.NewProcess(t, filepath.Join(disk, "manager"))
	p.Start(t)
	p.WaitServing(t)
	client := p.Client(t)
	if _, err := client.CreateGroup(t.Context(), "before", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "before", Name: "steady"})
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(disk, "filler")
	fill(t, filler)

	_, err = client.CreateGroup(t.Context(), "while-full", sdk.Policy{})
	var refused *sdk.Error
	if !errors.As(err, &refused) || refused.Code != sdk.NoRoom || refused.Reason != "STORE_FULL" {
		t.Fatalf("a write on a full disk: %v, want no room", err)
	}
	t.Logf("refused: %v", err)
	wait(t, 12*time.Second) // longer than an expiry: the session is kept without writing
	members, err := client.Members(t.Context(), "before")
	if err != nil || len(members) != 1 || session.Err() != nil {
		t.Fatalf("reads on a full disk: %v %v, session %v", members, err, session.Err())
	}
	status, err := client.Status(t.Context())
	if err != nil || status.ReadOnlyReason == "" {
		t.Errorf("status %+v %v, want it to say why writes are refused", status, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateGroup(t.Context(), "after", sdk.Policy{}); err != nil {
		t.Errorf("a write after there is room again: %v", err)
	}
}

// fill writes a file until nothing more fits, and proves it.
func fill(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			size /= 2
		}
	}
}

// A single manager that crashed recovers all groups and memberships from disk,
// and gives members the time of an expiry to come back.
func TestRestartKeepsSessions(t *testing.T) {
	t.Parallel()
	p := managertest.NewProcess(t, t.TempDir())
	p.Start(t)
	p.WaitServing(t)
	client := p.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	steady, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "steady"})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	p.Kill()
	p.Start(t)
	p.WaitServing(t)
	members, err := client.Members(t.Context(), "g")
	if err != nil || len(members) != 2 {
		t.Fatalf("members after the restart: %v %v, want both", members, err)
	}
	eventually(t, 20*time.Second, "the member that did not come back expired", func() bool {
		members, err = client.Members(t.Context(), "g")
		return err == nil && len(members) == 1
	})
	if members[0].Incarnation != steady.Member().Incarnation || steady.Err() != nil {
		t.Errorf("members %v, session %v: want the steady one as it was", members, steady.Err())
	}
}
