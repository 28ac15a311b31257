package gather_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// enroll enrolls a member under its name, for every group, and returns its access.
func (s *site) enroll(name string) (access string) {
	s.Helper()
	return s.enrollInto(name, "*")
}

// enrollInto enrolls a member for a group.
func (s *site) enrollInto(name, group string) (access string) {
	s.Helper()
	token, err := s.command("token", "create", name, "--role", "member", "--group", group).Output()
	s.must(err)
	access = s.place(name + ".yaml")
	if said, err := s.command("--config", access, "enroll", "--endpoint", s.manager, "--replace", "--token", strings.TrimSpace(string(token))).CombinedOutput(); err != nil {
		s.Fatalf("enroll %s: %v: %s", name, err, said)
	}
	return access
}

// member uploads a stream as a member with an access of its own.
func (s *site) member(access string, from io.Reader) *process {
	s.Helper()
	command := s.command("--config", access, "upload", "-", "--name", "log", "--to", s.grpc)
	command.Stdin = from
	return s.begin(command)
}

// forbidden is the exit status of a command that is not allowed.
const forbidden = 5

// A member that is revoked at the managers is put out while it uploads: its stream and its connections end, and it is told why. So is one
// that was let in before the manager was killed and came back. Another's upload goes on. With a new token the member comes back, and its
// stream goes on where it was.
func TestRevokedClientIsPutOut(t *testing.T) {
	s := start(t)
	s.policy("default: {max: 4MB}")
	zero, err := os.Open("/dev/zero")
	s.must(err)
	defer zero.Close()
	access := s.enroll("alice")
	alice, bob := s.member(access, zero), s.member(s.enroll("bob"), zero)
	comes := func(name string, more int) {
		t.Helper()
		before := len(s.stored(name, "log"))
		s.await(name+" uploads", func() bool { return len(s.stored(name, "log")) > before+more })
	}
	comes("alice", 1<<20)
	comes("bob", 1<<20)
	s.putOut(alice, "alice")
	was := s.stored("alice", "log")
	comes("bob", 2<<20)
	if now := s.stored("alice", "log"); len(now) != len(was) {
		t.Errorf("%d bytes more came of who was revoked", len(now)-len(was))
	}
	if s.status("alice").GetAttached() {
		t.Error("who was revoked is still attached")
	}
	again := s.member(access, zero)
	if status := again.status(); status != forbidden {
		t.Errorf("who was revoked comes back with status %d: %s", status, again.said.String())
	}
	s.must(os.RemoveAll(access))
	alice = s.member(s.enroll("alice"), bytes.NewReader(make([]byte, 3<<20)))
	if status := alice.status(); status != 0 {
		t.Fatalf("with a new token: status %d: %s", status, alice.said.String())
	}
	if got, want := len(s.stored("alice", "log")), len(was)+3<<20; got != want {
		t.Errorf("%d bytes are there, want those %d that were and 3 MiB more", got, len(was))
	}
	s.leader.kill()
	comes("bob", 2<<20) // there is no manager at this time
	s.startManager()
	s.putOut(bob, "bob")
}

// putOut revokes a member, and waits until its upload has ended for that reason.
func (s *site) putOut(p *process, name string) {
	s.Helper()
	began := time.Now()
	var said []byte
	s.await("it is revoked", func() bool {
		var err error
		said, err = s.command("identity", "revoke", "member/"+name).CombinedOutput()
		return err == nil
	})
	status := p.status()
	s.Logf("%s ends %.2f s after it was revoked (%s): %s", name, time.Since(began).Seconds(), said, p.said.String())
	if status != forbidden || !strings.Contains(p.said.String(), "was revoked") {
		s.Errorf("%s ends with status %d, want %d and why: %s", name, status, forbidden, p.said.String())
	}
}
