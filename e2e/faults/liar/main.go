// The liar is a member with a valid identity that violates the protocol. It joins a group, and lies
// to its parent in the next delivery, on one link for each lie. For each lie it says whether the
// link was closed.
package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/uplink"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: liar CONFIG GROUP NAME NODE STRANGER: the stranger is the address of agent-a, which does not feed this member")
		os.Exit(2)
	}
	if err := lie(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// lie joins, waits for something to receive, lies about it, and leaves.
func lie(ctx context.Context, file, group, name, node, stranger string) error {
	config, err := uplink.ReadConfig(file)
	if err != nil {
		return err
	}
	managers, err := uplink.Dial(config, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer managers.Close()
	sessions := groupv1.NewSessionServiceClient(managers)
	joined, err := sessions.Join(ctx, &groupv1.JoinRequest{
		Group: group, Name: name, Node: node, Roles: []groupv1.Role{groupv1.Role_ROLE_RECEIVE}, RequestId: name,
	})
	if err != nil {
		return err
	}
	member := joined.GetMember()
	fmt.Printf("joined %s as %s\n", group, name)
	assigned := make(chan *groupv1.Assignment, 16)
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	attendance := &uplink.Attendance{
		Assign: func(all *groupv1.Assignments) {
			for _, a := range all.GetCurrent() {
				if len(a.GetParent().GetAddresses()) > 0 {
					assigned <- a
				}
			}
		},
	}
	go func() {
		// If the session ends early, the links are refused.
		_ = managers.Keep(keeping, member, joined.GetHeartbeatInterval().AsDuration(), attendance)
	}()
	l := liar{managers.Security(), <-assigned, stranger}
	l.lieAll(ctx)
	_, err = sessions.Leave(ctx, &groupv1.LeaveRequest{Group: group, Name: name, Incarnation: member.GetIncarnation(), RequestId: name + "-leaves"})
	return err
}

type liar struct {
	security   identity.TLS
	assignment *groupv1.Assignment
	stranger   string
}

// lieAll tells every lie.
func (l *liar) lieAll(ctx context.Context) {
	frame := func(kind, flags byte, length uint32, offset uint64) []byte {
		header := []byte{kind, flags, 0, 0}
		header = binary.BigEndian.AppendUint32(header, length)
		header = binary.BigEndian.AppendUint64(header, offset)
		return binary.BigEndian.AppendUint64(header, l.assignment.GetTreeVersion())
	}
	for _, lie := range []struct {
		name   string
		frames []byte
	}{
		{"frame of an unknown type", frame(99, 0, 0, 0)},
		{"frame of 2³²-1 bytes", frame(byte(wire.Bye), 0, 1<<32-1, 0)},
		{"frame of 2³¹ bytes", frame(byte(wire.Data), 0, 1<<31, 0)},
		{"BYE of one byte", frame(byte(wire.Bye), 0, 1, 0)},
		{"offset beyond all", frame(byte(wire.Credit), 0, 0, 1<<63)},
		{"DATA from a child", append(frame(byte(wire.Data), 0, 4, 0), "data"...)},
		{"END from a child", append(frame(byte(wire.End), 0, wire.RootSize, 0), make([]byte, wire.RootSize)...)},
	} {
		l.report(lie.name, l.tell(ctx, lie.frames))
	}
	l.report("header dripped a byte a second", l.drip(ctx, frame(byte(wire.Status), 0, 0, 0)))
	l.report("asks an agent that is not its parent", l.askStranger(ctx))
	l.report("acknowledges what was never sent", l.tell(ctx, frame(byte(wire.Ack), byte(wire.Durable), 0, 1<<40)))
	l.report("comes again after that", l.comeAgain(ctx))
}

func (l *liar) report(name string, err error) {
	if err != nil {
		fmt.Printf("BELIEVED %s: %v\n", name, err)
		return
	}
	fmt.Printf("refused: %s\n", name)
}

func (l *liar) dial(ctx context.Context, peer identity.ID, address string) (*link.Conn, error) {
	id, err := hex.DecodeString(l.assignment.GetDelivery())
	if err != nil {
		return nil, err
	}
	conn, _, err := link.Dial(ctx, &net.Dialer{}, address, l.security, peer, wire.Hello{
		Stripes: 1, Delivery: wire.DeliveryID(id), TreeVersion: l.assignment.GetTreeVersion(), Capability: l.assignment.GetCapability(),
	})
	return conn, err
}

func (l *liar) dialParent(ctx context.Context) (*link.Conn, error) {
	parent := l.assignment.GetParent()
	return l.dial(ctx, identity.ID{Role: identity.Agent, Name: parent.GetName()}, parent.GetAddresses()[0])
}

var errOpen = errors.New("the link is still open")

// within is how long a parent may take to close a link that is of no use, or on which it is lied to: twice its patience.
const within = 4 * time.Second

// tell sends a lie, and then signs of life until the link is closed.
func (l *liar) tell(ctx context.Context, frames []byte) error {
	conn, err := l.dialParent(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	status := wire.Header{Type: wire.Status}.Append(nil)
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := conn.Send(frames); err != nil {
			return nil
		}
		frames = status
	}
	return errOpen
}

// comeAgain asks the parent once more; by now the parent has given this member up, or the managers have told it that it
// has no business with it.
func (l *liar) comeAgain(ctx context.Context) error {
	conn, err := l.dialParent(ctx)
	var refusal *wire.Refusal
	switch {
	case err == nil:
		conn.Close()
		return errOpen
	case !errors.As(err, &refusal) || refusal.Reason != wire.Protocol && refusal.Reason != wire.Stale:
		return err
	}
	return nil
}

// drip sends a frame so slowly that it does not count as one.
func (l *liar) drip(ctx context.Context, frame []byte) error {
	conn, err := l.dialParent(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	begun := time.Now()
	for _, b := range frame {
		if err := conn.Send([]byte{b}); err != nil {
			return nil
		}
		if time.Since(begun) > within {
			return errOpen
		}
		time.Sleep(time.Second)
	}
	return errOpen
}

// askStranger asks an agent that has nothing to do with this member.
func (l *liar) askStranger(ctx context.Context) error {
	conn, err := l.dial(ctx, identity.ID{Role: identity.Agent, Name: "agent-a"}, l.stranger)
	var refusal *wire.Refusal
	switch {
	case err == nil:
		conn.Close()
		return errOpen
	case !errors.As(err, &refusal) || refusal.Reason != wire.Stale:
		return err
	}
	return nil
}
