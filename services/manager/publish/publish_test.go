package publish

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/internal/uplink"
)

// memory is a namespace's objects, with versions as the API server has them.
type memory struct {
	mu         sync.Mutex
	secrets    map[string]map[string][]byte
	configMaps map[string]map[string]string
	version    int
	away       error  // what is answered, unless it is nil
	raced      func() // called once before a Secret is set, as if by a faster manager
}

func newMemory() *memory {
	return &memory{secrets: map[string]map[string][]byte{}, configMaps: map[string]map[string]string{}}
}

func (m *memory) Secret(_ context.Context, name string) (map[string][]byte, kubernetes.Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.secrets[name]), kubernetes.Version(strconv.Itoa(m.version)), m.away
}

func (m *memory) SetSecret(_ context.Context, name string, data map[string][]byte, read kubernetes.Version) error {
	if raced := m.raced; raced != nil {
		m.raced = nil
		raced()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if read != "" && read != kubernetes.Version(strconv.Itoa(m.version)) {
		return kubernetes.ErrConflict
	}
	m.version++
	m.secrets[name] = data
	return nil
}

func (m *memory) SetConfigMap(_ context.Context, name string, data map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away == nil {
		m.configMaps[name] = data
	}
	return m.away
}

// answer makes this the answer to all that is asked from now on.
func (m *memory) answer(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = err
}

func share(t *testing.T, objects Objects, dir string) error {
	t.Helper()
	return Sharing{Objects: objects, Secret: "ca", Dir: dir, TrustDomain: "example.org", Log: slog.New(slog.DiscardHandler)}.Run(t.Context())
}

func certificateIn(t *testing.T, dir string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, caCertificate))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Whichever manager is first decides, and all have the same CA, also when two are first at once.
func TestManagersShareOneCA(t *testing.T) {
	objects := newMemory()
	first, second := t.TempDir(), t.TempDir()
	objects.raced = func() {
		if err := share(t, objects, second); err != nil {
			t.Error(err)
		}
	}
	if err := share(t, objects, first); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(certificateIn(t, first), certificateIn(t, second)) || !bytes.Equal(certificateIn(t, first), objects.secrets["ca"][caCertificate]) {
		t.Error("two CAs")
	}
	if _, err := identity.OpenCA(first, "example.org"); err != nil {
		t.Error(err)
	}
}

// A manager that follows never makes a CA. The manager that has made one, and no other, may found a store that belongs to it.
func TestFollowersWaitForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, first, second := newMemory(), t.TempDir(), t.TempDir()
		sharing := func(dir string, follow bool) Sharing {
			return Sharing{Objects: objects, Secret: "ca", Dir: dir, TrustDomain: "example.org", Follow: follow, Founding: filepath.Join(dir, "founding"), Log: slog.New(slog.DiscardHandler)}
		}
		following := make(chan error)
		go func() { following <- sharing(second, true).Run(t.Context()) }()
		time.Sleep(time.Minute)
		if len(objects.secrets) > 0 {
			t.Error("a follower has made a CA")
		}
		if err := sharing(first, false).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-following; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(first, "founding")); err != nil {
			t.Error("the first may not found a store")
		}
		if _, err := os.Stat(filepath.Join(second, "founding")); err == nil {
			t.Error("a follower may found a store")
		}
		lost := t.TempDir()
		if err := sharing(lost, false).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(lost, "founding")); err == nil {
			t.Error("a first manager that has lost its volume may found another store")
		}
	})
}

// After an uninstallation the Secret is gone and the volume is there: the store belongs to the volume's CA.
func TestTheVolumesCAComesBack(t *testing.T) {
	dir := t.TempDir()
	if err := share(t, newMemory(), dir); err != nil {
		t.Fatal(err)
	}
	before, fresh := certificateIn(t, dir), newMemory()
	if err := share(t, fresh, dir); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, fresh.secrets["ca"][caCertificate]) {
		t.Error("another CA was made")
	}
}

func TestAnotherCAIsNotOverwritten(t *testing.T) {
	one, other, dir := newMemory(), newMemory(), t.TempDir()
	if err := share(t, one, dir); err != nil {
		t.Fatal(err)
	}
	if err := share(t, other, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	before := certificateIn(t, dir)
	if err := share(t, other, dir); err == nil || !strings.Contains(err.Error(), "is not the one in Secret ca") {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(before, certificateIn(t, dir)) {
		t.Error("the directory's CA was replaced")
	}
}

// A manager that has the CA begins also while the API server does not answer. A manager that has none cannot, and a refusal has to be seen to.
func TestManagersOutliveTheAPIServer(t *testing.T) {
	objects, dir := newMemory(), t.TempDir()
	if err := share(t, objects, dir); err != nil {
		t.Fatal(err)
	}
	before := certificateIn(t, dir)
	objects.answer(kubernetes.ErrNoAnswer)
	if err := share(t, objects, dir); err != nil || !bytes.Equal(before, certificateIn(t, dir)) {
		t.Errorf("with a CA: %v", err)
	}
	if err := share(t, objects, t.TempDir()); !errors.Is(err, kubernetes.ErrNoAnswer) {
		t.Errorf("without one: %v", err)
	}
	refused := errors.New("secrets \"ca\" is forbidden")
	objects.answer(refused)
	if err := share(t, objects, dir); !errors.Is(err, refused) {
		t.Errorf("refused: %v", err)
	}
}

// The CA's certificate is published as soon as the API server takes it, whoever leads.
func TestTheCertificateIsPublishedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := newMemory()
		ca, err := identity.NewCA("example.org", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		keeper := &Keeper{Objects: objects, CA: ca, ConfigMap: "authority", Log: slog.New(slog.DiscardHandler), Leading: func() bool { return false }}
		objects.answer(kubernetes.ErrNoAnswer)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- keeper.Run(ctx) }()
		time.Sleep(time.Minute)
		objects.answer(nil)
		time.Sleep(look)
		synctest.Wait()
		if got := objects.configMaps["authority"][caCertificate]; got != string(ca.AuthoritiesPEM()) {
			t.Errorf("published is %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The certificates in the ConfigMap, and beside credentials, are the current ones: another issuer's may change, and somebody may empty the
// ConfigMap.
func TestTheCertificatesArePublishedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := newMemory()
		ca, err := identity.NewCA("example.org", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		var issuer atomic.Pointer[identity.CA]
		issuer.Store(newCA(t))
		ca.Managers = func() [][]byte { return issuer.Load().Authorities() }
		keeper := &Keeper{
			Objects: objects, CA: ca, ConfigMap: "authority", Log: slog.New(slog.DiscardHandler),
			Credentials: []Credential{{Secret: "operator", ID: identity.ID{Role: identity.Operator, Name: "admin"}}},
			Leading:     func() bool { return true }, Stamp: func() identity.Stamp { return 1 },
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go keeper.Run(ctx)
		want := func(when string, within time.Duration) {
			t.Helper()
			time.Sleep(within)
			synctest.Wait()
			objects.mu.Lock()
			defer objects.mu.Unlock()
			if got := objects.configMaps["authority"][caCertificate]; got != string(ca.AuthoritiesPEM()) {
				t.Errorf("%s: published is %q", when, got)
			}
			if got := objects.secrets["operator"][caCertificate]; string(got) != string(ca.AuthoritiesPEM()) {
				t.Errorf("%s: the operator knows %q", when, got)
			}
		}
		want("at first", look)
		issuer.Store(newCA(t))
		want("of another issuer", look)
		objects.mu.Lock()
		clear(objects.configMaps)
		objects.mu.Unlock()
		want("emptied", again+look)
	})
}

// A ConfigMap that may not be written from the beginning has to be seen to: no pod could enroll.
func TestRefusedConfigMapEndsTheManager(t *testing.T) {
	objects := newMemory()
	refused := errors.New("configmaps \"authority\" is forbidden")
	objects.answer(refused)
	keeper := &Keeper{Objects: objects, CA: newCA(t), ConfigMap: "authority", Log: slog.New(slog.DiscardHandler), Leading: func() bool { return false }}
	if err := keeper.Run(t.Context()); !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
}

func newCA(t *testing.T) *identity.CA {
	t.Helper()
	ca, err := identity.NewCA("example.org", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// A manager that went on without an answer shares its CA later, and puts it back if somebody has emptied the Secret. A manager that has another
// CA than all others ends.
func TestTheCAIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, dir := newMemory(), t.TempDir()
		if err := newCA(t).Save(dir); err != nil {
			t.Fatal(err)
		}
		objects.answer(kubernetes.ErrNoAnswer)
		if err := share(t, objects, dir); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		kept := make(chan error, 1)
		sharing := Sharing{Objects: objects, Secret: "ca", Dir: dir, TrustDomain: "example.org", Log: slog.New(slog.DiscardHandler)}
		go func() { kept <- sharing.Keep(ctx) }()
		time.Sleep(time.Minute)
		objects.answer(nil)
		for range 2 {
			time.Sleep(again)
			synctest.Wait()
			objects.mu.Lock()
			if !bytes.Equal(objects.secrets["ca"][caCertificate], certificateIn(t, dir)) {
				t.Error("the Secret has no CA")
			}
			clear(objects.secrets)
			objects.mu.Unlock()
		}
		cancel()
		if err := <-kept; err != nil {
			t.Error(err)
		}
		if err := share(t, objects, t.TempDir()); err != nil { // another one
			t.Fatal(err)
		}
		if err := sharing.Keep(t.Context()); err == nil || !strings.Contains(err.Error(), "is not the one in Secret ca") {
			t.Errorf("beside another CA: %v", err)
		}
	})
}

// Where there is a store already, no new CA is made.
func TestNoCAIsMadeBesideAStore(t *testing.T) {
	objects, dir := newMemory(), t.TempDir()
	sharing := Sharing{Objects: objects, Secret: "ca", Dir: dir, TrustDomain: "example.org", Log: slog.New(slog.DiscardHandler)}
	sharing.MayMake = func(context.Context) error { return errors.New("the store belongs to another") }
	if err := sharing.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Secret ca is empty") || len(objects.secrets) > 0 || has(dir) {
		t.Errorf("%v: %d Secrets", err, len(objects.secrets))
	}
}

// It is noted at once that the CA has a store, also where an earlier version has not done so, and again where the Secret was emptied. An empty
// store is then not the CA's, nor is one where that cannot be told.
func TestTheCAHasOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, dir := newMemory(), t.TempDir()
		sharing := Sharing{Objects: objects, Secret: "ca", Dir: dir, TrustDomain: "example.org", Store: "external", Log: slog.New(slog.DiscardHandler)}
		if err := sharing.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := sharing.MayClaim(t.Context()); err != nil {
			t.Errorf("of a new CA: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go sharing.Keep(ctx)
		for _, when := range []string{"noted", "put back"} {
			synctest.Wait()
			if err := sharing.MayClaim(t.Context()); err == nil || !strings.Contains(err.Error(), "has a store already (external)") {
				t.Errorf("%s: %v", when, err)
			}
			objects.mu.Lock()
			clear(objects.secrets)
			objects.mu.Unlock()
			time.Sleep(again)
		}
		objects.answer(kubernetes.ErrNoAnswer)
		if err := sharing.MayClaim(t.Context()); !errors.Is(err, kubernetes.ErrNoAnswer) {
			t.Errorf("without an answer: %v", err)
		}
	})
}

// Credentials are good, say where the managers are, and are made anew at half of their life, only by the leader.
func TestCredentialsStayFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := newMemory()
		ca, err := identity.NewCA("example.org", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		var leads atomic.Bool
		keeper := &Keeper{
			Objects: objects, CA: ca, Log: slog.New(slog.DiscardHandler),
			Credentials: []Credential{{Secret: "operator", ID: identity.ID{Role: identity.Operator, Name: "admin"}, Endpoint: "managers:7400"}},
			Leading:     leads.Load, Stamp: func() identity.Stamp { return 1 },
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go keeper.Run(ctx)
		time.Sleep(time.Minute)
		if objects.version != 0 {
			t.Error("published by one that does not lead")
		}
		leads.Store(true)
		time.Sleep(look)
		synctest.Wait()
		dir := t.TempDir()
		for name, content := range objects.secrets["operator"] {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		access, err := uplink.ReadConfig(filepath.Join(dir, operatorConfig))
		if err != nil || access.Endpoints[0] != "managers:7400" {
			t.Fatalf("%+v %v", access, err)
		}
		if credentials, err := identity.FilesIn(access.CredentialsDir).Credentials(); err != nil || credentials.ID.Role != identity.Operator {
			t.Errorf("%+v %v", credentials, err)
		}
		objects.mu.Lock()
		clear(objects.secrets)
		objects.mu.Unlock()
		time.Sleep(again)
		synctest.Wait()
		if len(objects.secrets) == 0 {
			t.Error("a Secret that was emptied stays so")
		}
		before := objects.version
		time.Sleep(identity.CertificateLifetime)
		synctest.Wait()
		if renewed := objects.version - before; renewed != 2 {
			t.Errorf("renewed %d times within a life, want 2", renewed)
		}
	})
}

// A machine that was suspended finds its credentials old, though hardly any of its time has passed.
func TestCredentialsAreRenewedByTheDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := newMemory()
		var ago atomic.Int64
		ago.Store(int64(identity.CertificateLifetime * 2 / 3))
		ca, err := identity.NewCA("example.org", func() time.Time { return time.Now().Add(-time.Duration(ago.Load())) })
		if err != nil {
			t.Fatal(err)
		}
		keeper := &Keeper{
			Objects: objects, CA: ca, Log: slog.New(slog.DiscardHandler),
			Credentials: []Credential{{Secret: "operator", ID: identity.ID{Role: identity.Operator, Name: "admin"}}},
			Leading:     func() bool { return true }, Stamp: func() identity.Stamp { return 1 },
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go keeper.Run(ctx)
		isFresh := func() bool {
			time.Sleep(2 * look)
			synctest.Wait()
			objects.mu.Lock()
			defer objects.mu.Unlock()
			data := objects.secrets["operator"]
			bundle := identity.Bundle{Key: data[privateKey], Certificate: data[certificateKey], Authorities: data[caCertificate]}
			credentials, err := bundle.Credentials()
			return err == nil && !credentials.RenewalDue(time.Now())
		}
		if isFresh() {
			t.Fatal("it is not old")
		}
		ago.Store(0)
		if !isFresh() {
			t.Error("it stays as old as it is")
		}
	})
}
