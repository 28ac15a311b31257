package manager_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// wait lets time pass in which something must not happen.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// freeze stops a process, and proves it.
func freeze(t *testing.T, p *managertest.Process) {
	t.Helper()
	p.Signal(t, syscall.SIGSTOP)
	eventually(t, 5*time.Second, "the process is frozen", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		return err == nil && stateIn(string(text)) == 'T'
	})
}

func thaw(t *testing.T, p *managertest.Process) {
	t.Helper()
	p.Signal(t, syscall.SIGCONT)
}

// stateIn returns the state of a process, the field after its name in parentheses.
func stateIn(stat string) byte {
	for i := len(stat) - 3; i >= 0; i-- {
		if stat[i] == ')' {
			return stat[i+2]
		}
	}
	return 0
}

// eventually waits for something to become true.
func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	deadline := time.After(within)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", within, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

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

// C26: 2,000 members freeze together. They expire in a few transactions, the epoch
// grows by steps and not by members, and all can come back.
func TestC26MassExpiry(t *testing.T) {
	const members = 2000
	m := managertest.Start(t)
	client := m.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	sessions := groupv1.NewSessionServiceClient(managertest.Dial(t, mustRead(t, m.Access)))
	joinAll := func() {
		var joining sync.WaitGroup
		for worker := range 50 {
			joining.Go(func() {
				for i := worker; i < members; i += 50 {
					if _, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: "g", Name: fmt.Sprintf("m-%d", i)}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		joining.Wait()
	}
	joinAll() // and send no heartbeat
	group, err := client.Group(t.Context(), "g")
	if err != nil || group.Members != members {
		t.Fatalf("%d members joined (%v), want %d", group.Members, err, members)
	}
	before := group.Epoch
	eventually(t, 20*time.Second, "all members expired", func() bool {
		group, err = client.Group(t.Context(), "g")
		return err == nil && group.Members == 0
	})
	wait(t, 2*time.Second)
	if group, err = client.Group(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	if steps := group.Epoch - before; steps < 1 || steps > 15 {
		t.Errorf("the epoch grew by %d for %d expiries, want a few steps", steps, members)
	}
	joinAll()
	if group, err = client.Group(t.Context(), "g"); err != nil || group.Members != members {
		t.Errorf("%d members came back (%v), want %d", group.Members, err, members)
	}
}

// C27: one member joins and leaves as fast as it can. It is slowed down; others are not.
func TestC27Flapping(t *testing.T) {
	m := managertest.Start(t)
	client := m.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	connection := managertest.Dial(t, mustRead(t, m.Access))
	sessions := groupv1.NewSessionServiceClient(connection)
	refused, joined := 0, 0
	before, err := client.Group(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		_, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: "g", Name: "flapper"})
		if err != nil {
			refused++
			continue
		}
		joined++
		if _, err := sessions.Leave(t.Context(), &groupv1.LeaveRequest{Group: "g", Name: "flapper"}); err != nil {
			t.Fatal(err)
		}
	}
	if joined < 10 || joined > 20 || refused < 280 {
		t.Errorf("%d joins were accepted and %d refused, want a burst of about 10", joined, refused)
	}
	if _, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "calm"}); err != nil {
		t.Errorf("another member: %v", err)
	}
	after, err := client.Group(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if steps := after.Epoch - before.Epoch; steps > 5 {
		t.Errorf("the epoch grew by %d within a second or two, want at most one a second", steps)
	}
}

// C32: the reply is lost after the change was made. Asking again with the same id
// has one effect, and gives the same answer.
func TestC32LostReply(t *testing.T) {
	m := managertest.Start(t)
	config := mustRead(t, m.Access)
	through := newSilencer(t, m.Address)
	config.Endpoints = []string{through.address}
	connection := managertest.Dial(t, config)
	groups, sessions := groupv1.NewGroupServiceClient(connection), groupv1.NewSessionServiceClient(connection)
	direct := groupv1.NewGroupServiceClient(managertest.Dial(t, mustRead(t, m.Access)))
	if _, err := groups.GetGroup(t.Context(), &groupv1.GetGroupRequest{Name: "none"}); err == nil {
		t.Fatal("there is a group already")
	}
	create := &groupv1.CreateGroupRequest{Name: "g", RequestId: "create-once"}
	through.losing(t, func(ctx context.Context) error {
		_, err := groups.CreateGroup(ctx, create)
		return err
	})
	var first *groupv1.Group
	eventually(t, 5*time.Second, "the group exists although its reply was lost", func() bool {
		answer, err := direct.GetGroup(t.Context(), &groupv1.GetGroupRequest{Name: "g"})
		first = answer.GetGroup()
		return err == nil
	})
	again, err := groups.CreateGroup(t.Context(), create)
	if err != nil || again.GetGroup().GetIncarnation() != first.GetIncarnation() {
		t.Errorf("asked again: %v %v, want the group that was made", again, err)
	}
	if _, err := groups.CreateGroup(t.Context(), &groupv1.CreateGroupRequest{Name: "g", RequestId: "another"}); err == nil {
		t.Error("another request made the group twice")
	}
	if _, err := groups.CreateGroup(t.Context(), &groupv1.CreateGroupRequest{Name: "other", RequestId: "create-once"}); err == nil {
		t.Error("an id was used for two requests")
	}
	// Deleted by somebody meanwhile, it is not made again.
	if _, err := direct.DeleteGroup(t.Context(), &groupv1.DeleteGroupRequest{Name: "g"}); err != nil {
		t.Fatal(err)
	}
	if _, err := groups.CreateGroup(t.Context(), create); err != nil {
		t.Errorf("asked again after the deletion: %v, want the same answer", err)
	}
	if _, err := direct.GetGroup(t.Context(), &groupv1.GetGroupRequest{Name: "g"}); err == nil {
		t.Error("a repeated request made the group again")
	}
	// A join: one incarnation.
	if _, err := direct.CreateGroup(t.Context(), &groupv1.CreateGroupRequest{Name: "h"}); err != nil {
		t.Fatal(err)
	}
	join := &groupv1.JoinRequest{Group: "h", Name: "m", RequestId: "join-once"}
	through.losing(t, func(ctx context.Context) error {
		_, err := sessions.Join(ctx, join)
		return err
	})
	one, err := sessions.Join(t.Context(), join)
	if err != nil {
		t.Fatal(err)
	}
	two, err := sessions.Join(t.Context(), join)
	if err != nil || one.GetMember().GetIncarnation() != two.GetMember().GetIncarnation() {
		t.Errorf("joined as %v and %v (%v), want one incarnation", one, two, err)
	}
}

// silencer passes connections on, and can lose what the server answers.
type silencer struct {
	address string
	mu      sync.Mutex
	silent  bool
	open    map[net.Conn]bool
}

func newSilencer(t *testing.T, to string) *silencer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silencer{address: listener.Addr().String(), open: make(map[net.Conn]bool)}
	t.Cleanup(func() {
		listener.Close()
		s.cut()
	})
	go func() {
		for {
			down, err := listener.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				down.Close()
				continue
			}
			s.track(down, up)
			go s.pass(up, down, false)
			go s.pass(down, up, true)
		}
	}()
	return s
}

func (s *silencer) track(connections ...net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range connections {
		s.open[c] = true
	}
}

func (s *silencer) pass(to, from net.Conn, answers bool) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		lose := answers && s.silent
		s.mu.Unlock()
		if lose {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (s *silencer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
	s.open = make(map[net.Conn]bool)
}

// losing does a call whose answer is lost.
func (s *silencer) losing(t *testing.T, call func(context.Context) error) {
	t.Helper()
	s.set(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := call(ctx); err == nil {
		t.Fatal("the answer came through")
	}
	s.set(false)
	s.cut() // what was lost stays lost
}

func (s *silencer) set(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

func mustRead(t testing.TB, access string) sdk.Config {
	t.Helper()
	config, err := managertest.ReadConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// C33: a manager sleeps through changes and the compaction of their history. Its
// watchers miss nothing: they are given the state anew, without who was removed.
func TestC33WatchAcrossCompaction(t *testing.T) {
	cluster := managertest.StartCluster(t, 2)
	leader := cluster.Leader(t)
	follower := cluster.Managers[0]
	if follower == leader {
		follower = cluster.Managers[1]
	}
	client := leader.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "stays"}); err != nil {
		t.Fatal(err)
	}
	goes, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "goes"})
	if err != nil {
		t.Fatal(err)
	}
	known := follow(t, follower.Client(t), "g")
	eventually(t, 10*time.Second, "the watcher knows both", func() bool { return known.are("goes", "stays") })

	freeze(t, follower)
	if err := goes.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := client.CreateGroup(t.Context(), fmt.Sprintf("other-%d", i), sdk.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Etcd.Compact(t)
	wait(t, 3*time.Second)
	thaw(t, follower)
	eventually(t, 20*time.Second, "the watcher knows who is left", func() bool { return known.are("stays") })
}

// A watcher that does not read is told to list again, and nothing waits for it.
func TestSlowWatcherRelists(t *testing.T) {
	m := managertest.Start(t)
	client := m.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	connection := managertest.Dial(t, mustRead(t, m.Access))
	sessions := groupv1.NewSessionServiceClient(connection)
	slow, err := sessions.WatchMembers(t.Context(), &groupv1.WatchMembersRequest{Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := slow.Recv()
	if err != nil {
		t.Fatal(err)
	}
	const joins = 20000 // more than the managers keep
	var joining sync.WaitGroup
	for worker := range 64 {
		joining.Go(func() {
			for i := worker; i < joins; i += 64 {
				if _, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: "g", Name: fmt.Sprintf("m-%d", i)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	joining.Wait()
	at := first.GetRevision()
	for {
		message, err := slow.Recv()
		if err != nil {
			if managertest.Reason(err) != "RELIST" {
				t.Fatalf("a slow watcher is told %v, want RELIST", err)
			}
			break
		}
		if message.GetRevision() < at {
			t.Fatalf("revision %d after %d", message.GetRevision(), at)
		}
		at = message.GetRevision()
	}
	// So is one that comes back too late.
	late, err := sessions.WatchMembers(t.Context(), &groupv1.WatchMembersRequest{Group: "g", ResumeRevision: first.GetRevision()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Recv(); managertest.Reason(err) != "RELIST" {
		t.Errorf("a late watcher is told %v, want RELIST", err)
	}
}

// following is what a watcher knows.
type following struct {
	mu      sync.Mutex
	members map[string]bool
}

func follow(t *testing.T, client *sdk.Client, group string) *following {
	t.Helper()
	f := &following{members: make(map[string]bool)}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	watching.Go(func() {
		for event, err := range client.WatchMembers(ctx, group) {
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			f.note(event)
		}
	})
	return f
}

func (f *following) note(event sdk.MemberEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch event.Change {
	case "":
		f.members = make(map[string]bool)
		for _, member := range event.Snapshot {
			f.members[member.Name] = true
		}
	case sdk.Added:
		f.members[event.Member.Name] = true
	case sdk.Removed:
		delete(f.members, event.Member.Name)
	}
}

func (f *following) are(names ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if !f.members[name] {
			return false
		}
	}
	return len(f.members) == len(names)
}

// A single manager that crashed recovers all groups and memberships from disk,
// and gives members the time of an expiry to come back.
func TestRestartKeepsSessions(t *testing.T) {
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
