package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// DialData connects to an agent's data port from a machine that takes no part in anything.
func (n *Net) DialData(agent string) net.Conn {
	n.Helper()
	conn, err := n.dialData(agent)
	n.must(err)
	n.Cleanup(func() { conn.Close() })
	return conn
}

func (n *Net) dialData(agent string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return n.intruder.Dial(ctx, "tcp", n.Machine(agent).At(dataPort))
}

// SecurityOf returns the configuration with which a member would dial an agent.
func (n *Net) SecurityOf(member, agent string) *tls.Config {
	security := identity.TLS{TrustDomain: identity.DefaultTrustDomain, Source: identity.FilesIn(filepath.Join(n.Machine(member).dir, "config.credentials"))}
	return security.Dial(identity.ID{Role: identity.Agent, Name: agent}, "groupcast-relay/1")
}

// Crowd keeps silent connections open at an agent's data port, and opens them again when they are closed, until leave.
func (n *Net) Crowd(agent string, connections int) (leave func()) {
	n.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var crowd sync.WaitGroup
	there := make(chan struct{}, connections)
	dialling := make(chan struct{}, 16) // each takes a thread
	for range connections {
		crowd.Go(func() {
			for first := true; ctx.Err() == nil; first = false {
				dialling <- struct{}{}
				conn, err := n.dialData(agent)
				<-dialling
				if err == nil {
					stop := context.AfterFunc(ctx, func() { conn.Close() })
					if first {
						there <- struct{}{}
					}
					_, _ = conn.Read(make([]byte, 1)) // one end or the other closes it
					stop()
					conn.Close()
				}
				pause.For(ctx, 5*time.Second) // idle ones, not a flood of new ones
			}
		})
	}
	n.Await("the crowd is there", func() bool { return len(there) >= connections*9/10 })
	var once sync.Once
	leave = func() {
		once.Do(func() {
			cancel()
			crowd.Wait()
		})
	}
	n.Cleanup(leave)
	return leave
}

// LetLie starts a member that violates the protocol. It is on node b, and also asks agent-a.
func (n *Net) LetLie(name string) {
	n.Helper()
	m := n.Machine(name)
	n.liars[name] = true
	binary := testprocess.Binary(n, "github.com/groupcast/groupcast/e2e/faults/liar")
	m.command = func() *lab.Process {
		return m.Command(binary, m.config(), group, m.name, m.node, n.Machine("agent-a").At(dataPort))
	}
	n.Restart(name)
	n.AwaitReady()
}

// LimitFiles bounds how many files a machine's program can have open.
func (n *Net) LimitFiles(name string, files uint64) {
	n.Helper()
	n.must(unix.Prlimit(n.Machine(name).Process.Pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}, nil))
}

// ProcessorTime returns how much processor time a machine's program has used.
func (m *Machine) ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.Process.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	var ticks int64
	for _, field := range strings.Fields(after)[11:13] { // user and system time
		var n int64
		if _, err := fmt.Sscan(field, &n); err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100)
}
