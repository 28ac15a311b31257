package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
)

// party is the stores of managers, each on an address of its own on this machine.
type party struct {
	t     *testing.T
	ca    *identity.CA
	dir   string
	hosts []string
}

func newParty(t *testing.T, hosts ...string) *party {
	t.Helper()
	ca, err := identity.NewCA("example.org", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return &party{t, ca, t.TempDir(), hosts}
}

// credentials certifies somebody, with DNS names.
func (p *party) credentials(name string, hosts ...string) *identity.Files {
	p.t.Helper()
	bundle, err := p.ca.IssueBundle(identity.ID{Role: identity.Manager, Name: "someone"}, 1, hosts...)
	if err != nil {
		p.t.Fatal(err)
	}
	files := identity.FilesIn(filepath.Join(p.dir, name))
	if err := files.Write(bundle); err != nil {
		p.t.Fatal(err)
	}
	return files
}

func (p *party) member(host string, found bool) (dir string, cluster store.Cluster) {
	files := p.credentials(host+"-tls", store.PeerName)
	return filepath.Join(p.dir, host), store.Cluster{
		Self: host, Seed: "all", Listen: host, Found: found,
		CertificateFile: files.Certificate, KeyFile: files.Key, AuthorityFile: files.Authorities,
		Lookup: func(_ context.Context, name string) ([]string, error) {
			if name == "all" {
				return p.hosts, nil
			}
			return []string{name}, nil
		},
	}
}

type opened struct {
	*store.Store
	err error
}

func (p *party) open(host string, found bool) <-chan opened {
	dir, cluster := p.member(host, found)
	result := make(chan opened, 1)
	go func() {
		s, err := store.OpenCluster(p.t.Context(), dir, cluster, slog.New(slog.DiscardHandler))
		result <- opened{s, err}
	}()
	return result
}

func (p *party) wait(result <-chan opened) *store.Store {
	p.t.Helper()
	got := <-result
	if got.err != nil {
		p.t.Fatal(got.err)
	}
	p.t.Cleanup(got.Close)
	return got.Store
}

// set writes a key, as often as it takes while the others elect.
func (p *party) set(s *store.Store, key, value string) {
	p.t.Helper()
	for try := range 100 {
		ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Second)
		err := s.PutForTest(ctx, key, value)
		cancel()
		if err == nil {
			return
		}
		if try == 99 {
			p.t.Fatalf("set %s: %v", key, err)
		}
	}
}

func (p *party) has(s *store.Store, key, want string) {
	p.t.Helper()
	item, found, err := s.Get(p.t.Context(), key)
	if err != nil || !found || string(item.Value) != want {
		p.t.Errorf("%s is %q, %v, %v: want %q", key, item.Value, found, err, want)
	}
}

// "scale 1 → 3": two join at once the store that one has founded. Then any one can be lost, its disk too.
func TestClusterGrowsAndLosesAny(t *testing.T) {
	p := newParty(t, "127.23.0.1", "127.23.0.2", "127.23.0.3")
	first := p.wait(p.open(p.hosts[0], true))
	p.set(first, "a", "1")
	second, third := p.open(p.hosts[1], false), p.open(p.hosts[2], false)
	two, three := p.wait(second), p.wait(third)
	p.has(two, "a", "1")
	p.has(three, "a", "1")

	first.Close()
	p.set(two, "b", "2")
	p.has(three, "b", "2")
	first = p.wait(p.open(p.hosts[0], false)) // its disk says who it is
	p.has(first, "b", "2")

	three.Close()
	if err := os.RemoveAll(filepath.Join(p.dir, p.hosts[2])); err != nil {
		t.Fatal(err)
	}
	three = p.wait(p.open(p.hosts[2], false))
	p.has(three, "b", "2")
	first.Close()
	p.set(three, "c", "3") // with two of three, since the one that came back votes
	p.has(two, "c", "3")
}

// A member that cannot look at its disk does not count as one that has lost it: the others keep it, and it goes on when the disk is back.
func TestClusterKeepsWhoCannotSeeItsDisk(t *testing.T) {
	p := newParty(t, "127.23.5.1", "127.23.5.2", "127.23.5.3")
	first := p.wait(p.open(p.hosts[0], true))
	second, third := p.open(p.hosts[1], false), p.open(p.hosts[2], false)
	p.wait(second)
	p.wait(third).Close()
	p.set(first, "a", "1")
	before, err := first.MembersForTest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	member := filepath.Join(p.dir, p.hosts[2], "member")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(member, member+".aside"))
	must(os.WriteFile(member, nil, 0o600)) // even root cannot look below it
	if got := <-p.open(p.hosts[2], false); !errors.Is(got.err, unix.ENOTDIR) {
		t.Errorf("it opens: %v", got.err)
	}
	if after, err := first.MembersForTest(t.Context()); err != nil || !maps.Equal(before, after) {
		t.Fatalf("members are %v, %v: want %v", after, err, before)
	}
	must(os.Remove(member))
	must(os.Rename(member+".aside", member))
	p.has(p.wait(p.open(p.hosts[2], false)), "a", "1")
}

// A member that waits for others can be stopped, whether it has to join them or waits until they are enough.
func TestClusterStopsWhileItWaits(t *testing.T) {
	p := newParty(t, "127.23.4.1", "127.23.4.2")
	first := p.wait(p.open(p.hosts[0], true))
	second := p.wait(p.open(p.hosts[1], false))
	first.Close()
	second.Close()
	stops := func(why, host string) {
		t.Helper()
		dir, cluster := p.member(host, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(3*time.Second, cancel)
		s, err := store.OpenCluster(ctx, dir, cluster, slog.New(slog.DiscardHandler))
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want canceled", why, err)
		}
	}
	stops("one of two", p.hosts[1])
	stops("a newcomer", "127.23.4.3")
	one, two := p.open(p.hosts[0], false), p.open(p.hosts[1], false) // the stopped stores have let go of their directories
	p.set(p.wait(one), "a", "1")
	p.has(p.wait(two), "a", "1")
}

// A member that was cut off is sent the database whole, while it runs: it knows how large that one is.
func TestClusterKnowsTheDatabaseItWasSent(t *testing.T) {
	const bytes = 24 << 20
	restore := store.SetQuotaForTest(bytes)
	p := newParty(t, "127.23.6.1", "127.23.6.2", "127.23.6.3")
	first := p.wait(p.open(p.hosts[0], true))
	second, late := p.open(p.hosts[1], false), p.open(p.hosts[2], false)
	p.wait(second)
	third := p.wait(late)
	restore()
	members, err := first.MembersForTest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mend []func()
	for _, other := range p.hosts[:2] {
		mend = append(mend, third.CutForTest(members["https://"+other+":2380"]))
	}
	value := strings.Repeat("x", 70<<10)
	for i := range 400 { // more than others keep for who is behind
		p.set(first, fmt.Sprintf("big/%d", i), value)
	}
	if first.WriteRefusal() == nil || third.WriteRefusal() != nil {
		t.Fatalf("before it is sent anything, one says %v, and who is behind %v", first.WriteRefusal(), third.WriteRefusal())
	}
	for _, mend := range mend {
		mend()
	}
	p.set(third, "after", "all") // what it writes, it has
	p.has(third, "big/399", value)
	if err := third.WriteRefusal(); !errors.Is(err, store.ErrFull) {
		t.Errorf("with a database that is full, it says %v", err)
	}
}

// A client that is certified by the same CA, as every agent is, is no manager.
func TestClusterRefusesOthersOfTheCA(t *testing.T) {
	p := newParty(t, "127.23.1.1")
	p.wait(p.open(p.hosts[0], true))
	for name, hosts := range map[string][]string{"manager": {store.PeerName}, "agent": nil, "gateway": {"envoy.example.org"}} {
		files := p.credentials(name, hosts...)
		security, err := identity.PlainTLS(files.Authorities, files.Certificate, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		security.InsecureSkipVerify = true // it is the server's check that is tested
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + p.hosts[0] + ":2379"}, TLS: security})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_, err = client.MemberList(ctx)
		cancel()
		client.Close()
		if (err == nil) != (name == "manager") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
