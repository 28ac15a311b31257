//go:build cluster

package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// party is a number of members outside the cluster, each with a connection of its own, fed by the agent of one node.
type party struct {
	t        *testing.T
	client   *sdk.Client
	group    string
	sessions []*sdk.Session
	arrived  []chan sdk.Arrived
	dirs     []string
}

func newParty(t *testing.T, access, group string, roles ...sdk.Role) *party {
	t.Helper()
	client, err := sdk.Open(access)
	if err != nil {
		t.Fatal(err)
	}
	p := &party{t: t, client: client, group: group}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); client.Close() })
	if _, err := client.CreateGroup(ctx, group, sdk.Policy{}); err != nil && sdk.CodeOf(err) != sdk.AlreadyExists {
		t.Fatal(err)
	}
	for i, node := range nodeNames(t) {
		own, err := sdk.Open(access)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { own.Close() })
		session, err := own.Join(ctx, sdk.Join{Group: group, Name: fmt.Sprintf("member-%d", i), Node: node, Roles: roles})
		if err != nil {
			t.Fatal(err)
		}
		dir, arrived := t.TempDir(), make(chan sdk.Arrived, 100)
		p.sessions, p.dirs, p.arrived = append(p.sessions, session), append(p.dirs, dir), append(p.arrived, arrived)
		go func() {
			defer close(arrived)
			for one, err := range session.Receive(ctx, sdk.ReceiveOptions{Into: dir}) {
				if err != nil {
					return
				}
				arrived <- one
			}
		}()
	}
	return p
}

// leave ends the members' sessions.
func (p *party) leave() {
	for _, session := range p.sessions {
		_ = session.Leave(context.Background())
	}
}

// next waits for the next object that member i gets, and returns its hash.
func (p *party) next(i int) (name, hash string) {
	p.t.Helper()
	select {
	case arrived, open := <-p.arrived[i]:
		if !open || arrived.Err != nil {
			p.t.Fatalf("member %d: open %v, %v", i, open, arrived.Err)
		}
		return arrived.Name, hashOf(p.t, arrived.Path)
	case <-time.After(3 * time.Minute):
		p.t.Fatalf("member %d got nothing", i)
	}
	return "", ""
}

// all waits until every member has one object of this hash.
func (p *party) all(hash string) {
	p.t.Helper()
	for i := range p.sessions {
		if name, got := p.next(i); got != hash {
			p.t.Errorf("member %d has %s with %.12s, want %.12s", i, name, got, hash)
		}
	}
}

// random writes a file of random bytes and returns its hash.
func random(t *testing.T, size int64) (name, hash string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "object")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(file, sum), rand.Reader, size); err != nil {
		t.Fatal(err)
	}
	return name, fmt.Sprintf("%x", sum.Sum(nil))
}

func hashOf(t *testing.T, name string) string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// sending is a delivery in progress.
type sending struct {
	out  *sdk.Outgoing
	hash string
}

// send begins a delivery at a rate, in bytes per second; zero means as fast as possible.
func (p *party) send(size int64, rate uint64) *sending {
	p.t.Helper()
	sender, err := p.client.Join(context.Background(), sdk.Join{Group: p.group, Name: fmt.Sprintf("sender-%d", time.Now().UnixNano()), Roles: []sdk.Role{sdk.Send}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { sender.Close() })
	source, hash := random(p.t, size)
	out, err := sender.Send(context.Background(), source, sdk.SendOptions{AckLevel: sdk.Durable, MaxBytesPerSecond: rate})
	if err != nil {
		p.t.Fatal(err)
	}
	return &sending{out, hash}
}

// until waits until so many bytes have left the sender.
func (p *party) until(s *sending, sent uint64) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for delivery, err := range s.out.Progress(ctx) {
		if err != nil || delivery.State != sdk.DeliveryRunning {
			p.t.Fatalf("%s before %d bytes were sent: %v", delivery.State, sent, err)
		}
		if delivery.SentBytes >= sent {
			return
		}
	}
	p.t.Fatal("the delivery ended too early to be disturbed")
}

// complete waits until a delivery is complete at all members, and checks that they have it.
func (p *party) complete(s *sending) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	delivery, err := s.out.Wait(ctx)
	if err != nil || delivery.Complete != len(p.sessions) {
		p.t.Fatalf("%s: %d of %d have it: %v %+v", delivery.State, delivery.Complete, len(p.sessions), err, delivery.Receipts)
	}
	p.all(s.hash)
}
