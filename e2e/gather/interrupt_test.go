package gather_test

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
)

// interrupted is the exit status of a command that was interrupted before everything was done.
const interrupted = 130

// wantInterrupted interrupts a program, and checks that it ends soon and says something.
func wantInterrupted(t *testing.T, p *process, words string) {
	t.Helper()
	began := time.Now()
	if status := p.end(); status != interrupted || !strings.Contains(p.said.String(), "interrupted: ") || !strings.Contains(p.said.String(), words) {
		t.Errorf("exit status %d, want %d and %q: %s", status, interrupted, words, p.said.String())
	}
	t.Logf("it took %v", time.Since(began))
}

// pipe uploads standard input.
func (s *site) pipe(as string) (*process, *os.File) {
	s.Helper()
	command := s.command("upload", "-", "--name", "in", "--to", s.grpc, "--as", as)
	from, to, err := os.Pipe()
	s.must(err)
	s.Cleanup(func() { to.Close() })
	command.Stdin = from
	p := s.begin(command)
	s.must(from.Close())
	return p, to
}

// A stream that is interrupted while the gatherer is gone, or accepts nothing, ends and says what
// is missing; the same command goes on there if it follows a file.
func TestInterruptedStreamsEnd(t *testing.T) {
	f := follow(t)
	in, to := f.pipe("bob")
	_, err := to.Write(f.more(1000))
	f.must(err)
	f.await("standard input has come", func() bool { return len(f.stored("bob", "in")) == 1000 })
	pause(2 * time.Second) // until the clients know what is committed
	f.gatherer.end()
	f.write(200_000)
	_, err = to.Write(f.more(300_000))
	f.must(err)
	f.wantSaid("of 293 KiB")
	f.await("standard input is read", func() bool { return strings.Contains(in.said.String(), "of 294 KiB") })
	wantInterrupted(t, f.p, "195 KiB of what was read are not at the gatherer; the same command goes on there")
	wantInterrupted(t, in, "293 KiB of what was read are not at the gatherer, and are lost")
	f.startGatherer()
	f.run()
	f.arrive()

	testprocess.Freeze(t, f.gatherer.Process)
	f.write(100_000)
	wantInterrupted(t, f.p, "the same command goes on there")
	testprocess.Thaw(t, f.gatherer.Process)
	f.run()
	f.arrive()
}

// A slow stream that is interrupted goes on until everything that was read is at the gatherer.
func TestInterruptedStreamGoesOn(t *testing.T) {
	f := follow(t)
	f.policy("default: {max: 500kB}")
	f.write(4 << 20)
	f.wantSaid("of 4.1 MiB")
	if status := f.p.end(); status != 0 {
		t.Errorf("exit status %d: %s", status, f.p.said.String())
	}
	f.arrive()
}

// If nobody answers, an upload says why it waits, and ends when it is interrupted.
func TestNobodyAnswers(t *testing.T) {
	s := start(t)
	name, _ := s.file("log", 1, 1000)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	defer silent.Close()
	for to, reason := range map[string]string{testprocess.FreeAddress(t): "connection refused", silent.Addr().String(): "deadline exceeded"} {
		for _, follow := range []string{"--follow", "--follow=false"} {
			p := s.upload("alice", name, follow, "--to", to)
			s.await("it says why", func() bool {
				said := p.said.String()
				return strings.Contains(said, "not connected: ") && strings.Contains(said, reason+"; trying again")
			})
			wantInterrupted(t, p, "nothing was uploaded: not connected: ")
		}
	}
	p := s.upload("alice", name, "--to", s.manager)
	if status := p.status(); status != 2 || !strings.Contains(p.said.String(), s.manager+" is no gatherer: ") {
		t.Errorf("to a manager: exit status %d: %s", status, p.said.String())
	}
}

// If a gatherer's data port cannot be reached, as behind a firewall, the upload says so, with the address that the gatherer gives.
func TestDataPortThatIsNotReached(t *testing.T) {
	data := testprocess.FreeAddress(t)
	s := start(t, "--data-addresses="+data)
	name, _ := s.file("log", 1, 1000)
	p := s.upload("alice", name, "--follow")
	s.await("it says why", func() bool {
		said := p.said.String()
		return strings.Contains(said, "nothing gets through: the gatherer's data port at "+data+": ") && strings.Contains(said, "connection refused; trying again")
	})
	wantInterrupted(t, p, "are not at the gatherer; the same command goes on there")
}
