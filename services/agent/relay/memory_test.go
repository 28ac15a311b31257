package relay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// mostPerConnection is how much of an agent's memory a connection may take, apart from the kernel's.
const mostPerConnection = 64 << 10

const crowd = 200

// Section 5 of the design: "at most 64 KiB of user memory per connection", of children that wait and of children that are being fed. The
// children are a process of their own: what is measured is the agent's.
func TestMemoryPerConnection(t *testing.T) {
	for _, plane := range []groupv1.DataPlane{groupv1.DataPlane_DATA_PLANE_TLS, groupv1.DataPlane_DATA_PLANE_PLAINTEXT} {
		t.Run(plane.String(), func(t *testing.T) {
			w := newWorld(t, 8<<20, &groupv1.DeliverySpec{DataPlane: plane})
			w.stripes = parallel.Bounds{Least: 1, Most: parallel.Most}
			w.start("sa1", 64<<20)
			w.tree("sa1", "sender", names(crowd)...)
			file, err := w.source()
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			source := &held{supply: supply{file, uint64(len(w.content))}, begin: make(chan struct{}), finish: make(chan struct{})}
			var sender sync.WaitGroup
			ctx, end := context.WithCancel(t.Context())
			sender.Go(func() { w.sendFrom(ctx, "sa1", source) })
			defer func() { end(); sender.Wait() }()
			w.await("the sender is there", func() bool { return w.agents["sa1"].Load().Links == 1 })

			alone := used()
			children := w.startChildren("sa1", crowd, 0)
			w.await("all children are there", func() bool { return w.agents["sa1"].Load().Links == 1+crowd })
			waiting := used() - alone
			close(source.begin)
			w.await("all children get something", func() bool { return children.begun.Load() == crowd })
			var fed int64
			for range 10 {
				fed = max(fed, used()-alone)
			}
			if children.done.Load() > 0 {
				t.Error("not all were fed while that was measured")
			}
			close(source.finish)
			w.await("all children have all", func() bool { return children.done.Load() == crowd })
			t.Logf("%d bytes for a connection that waits, %d for one that is fed", waiting/crowd, fed/crowd)
			limit := int64(mostPerConnection)
			if isRaceBuild() {
				limit *= 2 // stacks and objects are larger
			}
			if most := max(waiting, fed) / crowd; most > limit {
				t.Errorf("a connection takes %d bytes, want %d at most", most, limit)
			}
		})
	}
}

func isRaceBuild() bool {
	info, known := debug.ReadBuildInfo()
	return known && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// used returns how much memory this process uses for itself.
func used() int64 {
	runtime.GC()
	runtime.GC() // what pools held is gone only after two
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse + stats.StackInuse)
}

func names(count int) (all []string) {
	for i := range count {
		all = append(all, fmt.Sprint("r", i))
	}
	return all
}

// held is a source from which nothing comes before it begins, and no end before it finishes.
type held struct {
	supply
	begin, finish chan struct{}
}

func (h *held) Next(offset, most uint64) (link.Portion, error) {
	wait := h.begin
	if offset == h.length {
		wait = h.finish
	}
	select {
	case <-wait:
		return h.supply.Next(offset, most)
	default:
		return link.Portion{TreeVersion: 1, Changed: wait}, nil
	}
}

// children are members in another process.
type children struct{ begun, done atomic.Int64 }

// childrenVariable is the variable that tells the other process the CA, whom to dial, whether in plaintext, how many children there are,
// and for how much longer than the one before each waits for every MiB.
const childrenVariable = "RELAY_TEST_CHILDREN"

func (w *world) startChildren(parent string, count int, slower time.Duration) *children {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "ca")
	if err := w.ca.Save(dir); err != nil {
		w.Fatal(err)
	}
	plaintext := w.hello(nil).Plaintext
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%s\n%t\n%d\n%v", childrenVariable, dir, parent, w.agents[parent].address, plaintext, count, slower))
	process.Stderr = w.Output()
	said, err := process.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	if err := process.Start(); err != nil {
		w.Fatal(err)
	}
	c := &children{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			switch lines.Text() {
			case "begun":
				c.begun.Add(1)
			case "done":
				c.done.Add(1)
			}
		}
	}()
	w.Cleanup(func() {
		process.Process.Kill()
		<-read
		process.Wait()
	})
	return c
}

// beChildren is the other process.
func beChildren(arguments string) error {
	asked := strings.Split(arguments, "\n")
	ca, err := identity.OpenCA(asked[0], identity.DefaultTrustDomain)
	if err != nil {
		return err
	}
	plaintext, err := strconv.ParseBool(asked[3])
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(asked[4])
	if err != nil {
		return err
	}
	slower, err := time.ParseDuration(asked[5])
	if err != nil {
		return err
	}
	var all errgroup.Group
	for i, name := range names(count) {
		m := &sink{member: newMember(name), rest: time.Duration(i) * slower}
		all.Go(func() error { return beChild(ca, m, asked[1], asked[2], plaintext) })
	}
	return all.Wait()
}

func beChild(ca *identity.CA, m *sink, parent, address string, plaintext bool) error {
	ctx := context.Background()
	id := identity.ID{Role: identity.Member, Name: m.name}
	own, err := identity.NewSelfIssued(ca, id)
	if err != nil {
		return err
	}
	manager, err := identity.NewSelfIssued(ca, identity.ID{Role: identity.Manager, Name: "manager-0"})
	if err != nil {
		return err
	}
	signer, err := manager.Credentials()
	if err != nil {
		return err
	}
	capability, err := sign(signer, deliveryID, id, identity.Receive, time.Now())
	if err != nil {
		return err
	}
	hello := wire.Hello{Stripes: parallel.Most, Delivery: deliveryID, TreeVersion: 1, Capability: capability, Plaintext: plaintext}
	security := identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: own}
	for !m.isDone() {
		hello.From = m.upTo
		conn, _, err := link.Dial(ctx, &net.Dialer{}, address, security, identity.ID{Role: identity.Agent, Name: parent}, hello)
		if err != nil { // too many links are being opened
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err := link.NewTaking(ctx, hello.From, m, link.Options{}).Run(conn); err != nil {
			fmt.Fprintln(os.Stderr, m.name, err)
		}
	}
	fmt.Println("done")
	return nil
}

// sink is a member that keeps nothing, and says when it has something.
type sink struct {
	*member
	rest time.Duration // after each MiB
	upTo uint64
}

func (s *sink) Section(uint64) (link.Place, int64, error) {
	return link.Place{To: io.Discard}, 64 << 10, nil
}

func (s *sink) Landed(upTo uint64) error {
	if upTo>>20 > s.upTo>>20 {
		time.Sleep(s.rest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.upTo == 0 {
		fmt.Println("begun")
	}
	s.upTo = upTo
	s.announce()
	return nil
}

func (s *sink) Answer() link.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return link.Answer{Ack: s.upTo, Level: wire.Received, Credit: wire.MaxOffset, Done: s.end != nil, Changed: s.changed}
}
