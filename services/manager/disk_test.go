package manager_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// C20: the power is cut after changes were acknowledged. All of them are there
// when it comes back: the disk is taken as it was, without what was only in memory.
func TestC20PowerCut(t *testing.T) {
	disk := testdisk.New(t, "300M")
	p := managertest.NewProcess(t, filepath.Join(disk.Dir, "manager"))
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
	after, _ := disk.Cut(t)
	restarted := managertest.NewProcess(t, filepath.Join(after, "manager"))
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
	disk := filepath.Join(t.TempDir(), "disk")
	testdisk.Mount(t, "tmpfs", "size=200m", "tmpfs", disk)
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
	testdisk.Fill(t, filler)

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
