package manager_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager"
	"github.com/groupcast/groupcast/services/manager/managertest"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
	"github.com/groupcast/groupcast/services/manager/view"
)

// several is managers on one etcd. One of them is in the test's process, and is asked.
type several struct {
	etcd  *storetest.Etcd
	dir   string
	asked *managertest.Manager
}

func startSeveral(t *testing.T) *several {
	t.Helper()
	s := &several{etcd: storetest.StartEtcd(t), dir: t.TempDir()}
	s.ask(t)
	return s
}

func (s *several) ask(t *testing.T) {
	t.Helper()
	config := managertest.Config(filepath.Join(s.dir, "asked"))
	config.Name, config.Store.Endpoints, config.Identity.CADir = "asked", []string{s.etcd.Endpoint}, filepath.Join(s.dir, "ca")
	s.asked = managertest.Run(t, config)
}

func (s *several) start(t *testing.T, name string) *managertest.Process {
	t.Helper()
	p := managertest.NewProcess(t, filepath.Join(s.dir, name), "--name="+name, "--store-endpoints="+s.etcd.Endpoint, "--identity-ca-dir="+filepath.Join(s.dir, "ca"))
	p.Start(t)
	p.WaitServing(t)
	return p
}

// are waits until the status and the metrics say that these managers are here and those are missed. It returns the status.
func (s *several) are(t *testing.T, here, missed string) (status sdk.Status) {
	t.Helper()
	client := s.asked.Client(t)
	eventually(t, 40*time.Second, fmt.Sprintf("here are %s; missed %s", here, missed), func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var err error
		if status, err = client.Status(ctx); err != nil {
			return false
		}
		var online, offline []string
		for _, one := range status.Managers {
			if one.Away.IsZero() {
				online = append(online, one.Name)
			} else {
				offline = append(offline, one.Name)
			}
		}
		return strings.Join(online, " ") == here && strings.Join(offline, " ") == missed &&
			status.ManagersOnline == len(online) && status.ManagersOffline == len(offline) &&
			gauge(t, s.asked, "groupcast_manager_managers_online") == float64(len(online)) &&
			gauge(t, s.asked, "groupcast_manager_managers_offline") == float64(len(offline))
	})
	return status
}

// A manager of three that is killed is missed, since it was killed. It is not missed once it is back, nor when it stops in order.
func TestManagerThatIsKilledIsMissed(t *testing.T) {
	t.Parallel()
	s := startSeveral(t)
	m1, m2 := s.start(t, "m1"), s.start(t, "m2")
	begun := s.are(t, "asked m1 m2", "")
	wait(t, 8*time.Second) // otherwise the last may have come for the one that is killed
	killed := time.Now()
	m1.Kill()
	status := s.are(t, "asked m2", "m1")
	if status.Leader != "asked" {
		t.Fatalf("%s leads, want the first", status.Leader)
	}
	if since := status.Managers[1].Away.Sub(killed); since < -5*time.Second || since > 10*time.Second {
		t.Errorf("it is missed since %v after it was killed", since)
	}
	if m := status.Managers[1]; m.Address != m1.Address || m.Version == "" || !m.Started.Equal(begun.Managers[1].Started) {
		t.Errorf("%+v, want what it was", m)
	}
	m1.Start(t)
	m1.WaitServing(t)
	back := s.are(t, "asked m1 m2", "")
	if !back.Managers[1].Started.After(begun.Managers[1].Started) {
		t.Errorf("it is said to have begun at %v, as before", back.Managers[1].Started)
	}
	m2.Signal(t, syscall.SIGTERM)
	if status := m2.WaitExit(t, 20*time.Second); status != 0 {
		t.Errorf("it ended with %d, want 0", status)
	}
	s.are(t, "asked m1", "")
	s.stays(t, "asked m1", "")
}

// stays waits longer than a manager is silent before it is missed.
func (s *several) stays(t *testing.T, here, missed string) {
	t.Helper()
	wait(t, 15*time.Second)
	s.are(t, here, missed)
}

// A leader that is killed is missed by the next leader, and still by the one after that, although neither has led before.
func TestLeaderThatIsKilledIsMissed(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 3)
	lost := cluster.Leader(t)
	knows := func(of *managertest.Process, online, offline int) sdk.Status {
		var known sdk.Status
		awaitStatus(t, of, fmt.Sprintf("%d of %d", online, online+offline), func(status sdk.Status) bool {
			known = status
			return status.Leader != "" && status.ManagersOnline == online && status.ManagersOffline == offline
		})
		return known
	}
	knows(lost, 3, 0)
	killed := time.Now()
	lost.Kill()
	var rest []*managertest.Process
	for _, p := range cluster.Managers {
		if p != lost {
			rest = append(rest, p)
		}
	}
	for _, asked := range rest {
		status := knows(asked, 2, 1)
		at := slices.IndexFunc(status.Managers, func(m sdk.Manager) bool { return m.Address == lost.Address })
		if since := status.Managers[at].Away.Sub(killed); since < -time.Second || since > 15*time.Second {
			t.Errorf("it is missed since %v after it was killed", since)
		}
	}
	leader := cluster.Leader(t, rest...)
	leader.Signal(t, syscall.SIGTERM) // it hands over, and is not missed; the one that was missed still is
	if status := leader.WaitExit(t, 20*time.Second); status != 0 {
		t.Errorf("it ended with %d, want 0", status)
	}
	for _, last := range rest {
		if last != leader {
			wait(t, 15*time.Second)
			knows(last, 1, 1)
		}
	}
}

// A manager that dies while nothing can be written down is missed once something can be, since the time when it died.
func TestMissedSinceItDiedInAFullStore(t *testing.T) {
	t.Parallel()
	s := startSeveral(t)
	m1 := s.start(t, "m1")
	s.are(t, "asked m1", "")
	s.etcd.Fill(t)
	killed := time.Now()
	m1.Kill()
	s.stays(t, "asked m1", "")
	s.stays(t, "asked m1", "")
	s.etcd.Empty(t)
	status := s.are(t, "asked", "m1")
	if since := status.Managers[1].Away.Sub(killed); since < -5*time.Second || since > 10*time.Second {
		t.Errorf("it is missed since %v after it was killed", since)
	}
}

// A manager that answers is here, even if it is written down that it is missed.
func TestWhoAnswersIsHere(t *testing.T) {
	t.Parallel()
	s := startSeveral(t)
	m1 := s.start(t, "m1")
	s.are(t, "asked m1", "")
	m1.Freeze(t)
	s.are(t, "asked", "m1")
	s.etcd.Fill(t)
	m1.Thaw(t)
	awaitStatus(t, m1, "itself", func(status sdk.Status) bool { return status.ManagersOnline == 2 && status.ManagersOffline == 0 })
	s.etcd.Empty(t)
	s.are(t, "asked m1", "")
}

// A manager of another name takes the place of one that was missed.
func TestNewcomerReplacesWhoIsMissed(t *testing.T) {
	t.Parallel()
	s := startSeveral(t)
	m1 := s.start(t, "m1")
	s.are(t, "asked m1", "")
	m1.Kill()
	s.are(t, "asked", "m1")
	s.start(t, "m2")
	s.are(t, "asked m2", "")
}

// It does so even if it is there before the other one is known to be silent, like a pod that was made for one that died.
func TestNewcomerThatIsQuickReplacesWhoDied(t *testing.T) {
	t.Parallel()
	s := startSeveral(t)
	m1, m2 := s.start(t, "m1"), s.start(t, "m2")
	s.are(t, "asked m1 m2", "")
	wait(t, 8*time.Second)
	m1.Kill()
	s.start(t, "m3")
	s.are(t, "asked m2 m3", "")
	m2.Kill() // the newcomer came for one only
	s.are(t, "asked m3", "m2")
}

// A manager of an earlier release does not say when it stops. It is not missed, nor is a manager that was here before it was taken back to that
// release.
func TestEarlierManagersAreNotMissed(t *testing.T) {
	t.Parallel()
	s := startSeveral(t)
	m1 := s.start(t, "m1")
	s.are(t, "asked m1", "")
	m1.Kill()
	s.are(t, "asked", "m1")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var standing sync.WaitGroup
	for _, name := range []string{"m0", "m1"} {
		from := s.open(t)
		standing.Go(func() {
			if _, err := from.Campaign(ctx, store.Candidate{Name: name, Address: "127.0.0.1:1"}); err == nil {
				t.Errorf("%s leads beside another", name)
			}
		})
	}
	s.are(t, "asked", "")
	stop()
	standing.Wait()
	s.stays(t, "asked", "")
}

// Of two managers of one name, each says so, though a third leads.
func TestManagersOfOneName(t *testing.T) {
	t.Parallel()
	s := startSeveral(t)
	first := s.start(t, "twin")
	s.are(t, "asked twin", "")
	second := managertest.NewProcess(t, filepath.Join(s.dir, "another"), "--name=twin", "--store-endpoints="+s.etcd.Endpoint, "--identity-ca-dir="+filepath.Join(s.dir, "ca"))
	second.Start(t)
	second.WaitServing(t)
	for what, p := range map[string]*managertest.Process{"takes the place of one of its name elsewhere": second, "has the name twin, too": first} {
		eventually(t, 20*time.Second, what, func() bool { return strings.Contains(p.Said(), what) })
	}
	if strings.Contains(first.Said(), "store does not answer") {
		t.Error("the store is blamed")
	}
}

// Members are told how many managers there are, but not which.
func TestManagersAreNamedToOperators(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	client, err := sdk.Dial(m.Enroll(t, sdk.Token{Role: string(identity.Member), Name: "someone", Groups: []string{"g"}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	status, err := client.Status(t.Context())
	if err != nil || status.ManagersOnline != 1 || len(status.Managers) != 0 {
		t.Errorf("a member is told of %d: %v, %v", status.ManagersOnline, status.Managers, err)
	}
}

func (s *several) open(t *testing.T) *store.Store {
	t.Helper()
	opened, err := store.OpenExternal(t.Context(), []string{s.etcd.Endpoint}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

// A manager that is missed for a day is forgotten. One that has a part of the store is forgotten once it has none, and not before.
func TestWhoIsMissedForADayIsForgotten(t *testing.T) {
	t.Parallel()
	s := &several{etcd: storetest.StartEtcd(t), dir: t.TempDir()}
	earlier := s.open(t)
	term, err := earlier.Campaign(t.Context(), store.Candidate{Name: "earlier"})
	if err != nil {
		t.Fatal(err)
	}
	for name, record := range map[string]struct {
		away   time.Duration
		member string
	}{
		"hours":   {away: 22 * time.Hour},
		"longest": {away: 23 * time.Hour}, // the newcomer takes its place
		"day":     {away: 25 * time.Hour},
		"ahead":   {away: -time.Hour},                             // by a clock that was wrong
		"member":  {away: 25 * time.Hour, member: "127.0.0.1"},    // of which the etcd knows
		"removed": {away: time.Minute, member: "removed.example"}, // of which it does not
	} {
		encoded, err := proto.Marshal(&managerv1.ManagerRecord{
			Manager:     &groupv1.Manager{Name: name, Version: "v1", AwayTime: timestamppb.New(time.Now().Add(-record.away))},
			StoreMember: record.member,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := earlier.Commit(t.Context(), term, nil, []store.Op{store.Put(view.ManagerKey(name), encoded)}); err != nil {
			t.Fatal(err)
		}
	}
	term.Resign()
	s.ask(t)
	s.are(t, "asked", "ahead hours member")
	s.stays(t, "asked", "ahead hours member")
}

// A manager that has a part of the managers' own store is missed however it stopped.
func TestPartOfTheStoreIsMissedHoweverItStopped(t *testing.T) {
	t.Parallel()
	const host = "127.23.8.1"
	ca, err := identity.NewCA("example.org", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := ca.IssueBundle(identity.ID{Role: identity.Manager, Name: "m"}, 1, host, store.PeerName)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := identity.FilesIn(filepath.Join(dir, "tls"))
	if err := files.Write(bundle); err != nil {
		t.Fatal(err)
	}
	own, err := store.OpenCluster(t.Context(), filepath.Join(dir, "store"), store.Cluster{
		Self: host, Seed: host, Listen: host, Found: true,
		CertificateFile: files.Certificate, KeyFile: files.Key, AuthorityFile: files.Authorities,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	if members, err := own.Members(t.Context()); err != nil || !slices.Equal(members, []string{host}) || own.Member() != host {
		t.Fatalf("members %v, this one %q, %v", members, own.Member(), err)
	}
	etcd := storetest.StartEtcd(t)
	elsewhere, err := store.OpenExternal(t.Context(), []string{etcd.Endpoint}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(elsewhere.Close)
	for _, c := range []struct {
		of    *store.Store
		stays bool
	}{{own, true}, {elsewhere, false}} {
		self := store.Candidate{Name: "m", Address: "m:7400", Version: "v1", Started: 1, Member: c.of.Member()}
		term, err := c.of.Campaign(t.Context(), self)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.of.Commit(t.Context(), term, nil, []store.Op{store.Put(view.ManagerKey("m"), nil)}); err != nil {
			t.Fatal(err)
		}
		term.Resign()
		manager.Goodbye(t.Context(), self, c.of)
		if _, found, err := c.of.Get(t.Context(), view.ManagerKey("m")); err != nil || found != c.stays {
			t.Errorf("with a part of the store %q: it is expected %v, %v", c.of.Member(), found, err)
		}
	}
}

// A manager on its own, with its own store, writes nothing about itself, and is here.
func TestManagerOnItsOwn(t *testing.T) {
	m := managertest.Start(t)
	client := m.Client(t)
	first, err := client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Managers) != 1 || first.ManagersOnline != 1 || first.Managers[0].Address != m.Address || first.Managers[0].Name != first.Name {
		t.Errorf("%d managers: %+v", first.ManagersOnline, first.Managers)
	}
	wait(t, 5*time.Second)
	second, err := client.Status(t.Context())
	if err != nil || second.Revision != first.Revision {
		t.Errorf("from revision %d to %d without anything to write, %v", first.Revision, second.Revision, err)
	}
}
