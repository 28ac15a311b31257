package manager_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

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
	eventually(t, 30*time.Second, "the group exists although its reply was lost", func() bool {
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
	// A join that is refused for coming too often was not carried out. The one with this id was, and is still answered.
	refused := false
	for range 50 {
		_, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: "h", Name: "m"})
		refused = refused || managertest.Reason(err) == "RATE_LIMITED"
	}
	three, err := sessions.Join(t.Context(), join)
	if err != nil || !refused || one.GetMember().GetIncarnation() != three.GetMember().GetIncarnation() {
		t.Errorf("joined as %v and %v (%v; others refused: %v), want one incarnation", one, three, err, refused)
	}
}

// silencer passes connections on, and can lose what the server answers, and that it ends them.
type silencer struct {
	address string
	mu      sync.Mutex
	silent  bool
	open    map[net.Conn]bool
}

// newSilencer returns one whose connections lead to each of several in turn.
func newSilencer(t *testing.T, to ...string) *silencer {
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
		for taken := 0; ; taken++ {
			down, err := listener.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", to[taken%len(to)])
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
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		s.mu.Lock()
		lose := answers && s.silent
		s.mu.Unlock()
		if lose && err == nil {
			continue
		}
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			if !lose {
				to.Close()
			}
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
