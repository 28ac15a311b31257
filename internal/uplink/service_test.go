package uplink

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// A service that cannot get in says what it lacks.
func TestServiceSaysHowItIsLetIn(t *testing.T) {
	config := ServiceDefaults(t.TempDir())
	_, _, err := config.Connect(t.Context(), identity.Replicator, slog.New(slog.DiscardHandler))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--role replicator") {
		t.Errorf("without credentials: %v", err)
	}
	ca, err := identity.NewCA(config.TrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := ca.IssueBundle(identity.ID{Role: identity.Agent, Name: "a"}, 1)
	if err == nil {
		err = identity.FilesIn(config.CredentialsDir).Write(agent)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = config.Connect(t.Context(), identity.Replicator, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "are of agent/a: want those of a process with role replicator: remove them") {
		t.Errorf("with an agent's credentials: %v", err)
	}
	if err := os.WriteFile(identity.FilesIn(config.CredentialsDir).Key, nil, 0o600); err != nil { // as a full disk leaves it
		t.Fatal(err)
	}
	_, _, err = config.Connect(t.Context(), identity.Agent, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "or remove them and be let in anew") {
		t.Errorf("with an empty key: %v", err)
	}
}

// A key and a join token that others can read are used, but reported.
func TestExposedFilesAreTold(t *testing.T) {
	config := ServiceDefaults(t.TempDir())
	config.JoinTokenFile = filepath.Join(t.TempDir(), "token")
	ca, err := identity.NewCA(config.TrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := ca.IssueBundle(identity.ID{Role: identity.Agent, Name: "a"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 2} {
		config.CredentialsDir = t.TempDir()
		key := identity.FilesIn(config.CredentialsDir).Key
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		if err := cmp.Or(os.WriteFile(config.JoinTokenFile, []byte("none"), mode), os.Chmod(config.JoinTokenFile, mode)); err != nil {
			t.Fatal(err)
		}
		if err := config.Tickets(identity.Replicator).Enter(t.Context(), config.Uplink(), log); err == nil {
			t.Error("a token that is none lets in")
		}
		if err := cmp.Or(identity.FilesIn(config.CredentialsDir).Write(bundle), os.Chmod(key, mode)); err != nil {
			t.Fatal(err)
		}
		u, err := Dial(config.Uplink(), log)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		if strings.Count(said.String(), "every user of this machine can read the ") != want {
			t.Errorf("with mode %v it is said:\n%s", mode, said.String())
		}
	}
}

// A service that was away for so long that its credentials have expired is let in by a token like one that has none.
func TestExpiredCredentialsAreReplaced(t *testing.T) {
	config, log := ServiceDefaults(t.TempDir()), slog.New(slog.DiscardHandler)
	config.JoinTokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(config.JoinTokenFile, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]string{time.Hour: "", 3 * time.Hour: "have expired: enroll with the token in "} {
		ca, err := identity.NewCA(config.TrustDomain, func() time.Time { return time.Now().Add(-age) })
		if err != nil {
			t.Fatal(err)
		}
		old, err := ca.IssueBundle(identity.ID{Role: identity.Replicator, Name: "r"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		config.CredentialsDir = t.TempDir()
		if err := identity.FilesIn(config.CredentialsDir).Write(old); err != nil {
			t.Fatal(err)
		}
		err = config.Tickets(identity.Replicator).Enter(t.Context(), config.Uplink(), log)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v old: %v, want %q", age, err, want)
		}
	}
}

// A token file that is empty is told apart from one with other contents.
func TestEmptyTokenFileIsTold(t *testing.T) {
	config, log := ServiceDefaults(t.TempDir()), slog.New(slog.DiscardHandler)
	config.JoinTokenFile = filepath.Join(t.TempDir(), "token")
	for text, empty := range map[string]bool{"": true, " \n": true, "none": false} {
		if err := os.WriteFile(config.JoinTokenFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := config.Tickets(identity.Replicator).Enter(t.Context(), config.Uplink(), log)
		if says := err != nil && strings.Contains(err.Error(), config.JoinTokenFile+" is empty: "); says != empty {
			t.Errorf("with %q: %v", text, err)
		}
	}
}

// A service that no manager lets in says where it has looked for one.
func TestServiceSaysWhereItEnrolls(t *testing.T) {
	config, log := ServiceDefaults(t.TempDir()), slog.New(slog.DiscardHandler)
	config.Managers = []string{"127.0.0.1:1"} // where nobody listens
	config.JoinTokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(config.JoinTokenFile, []byte(identity.NewToken(identity.Fingerprint{}).String()), 0o600); err != nil {
		t.Fatal(err)
	}
	err := config.Tickets(identity.Replicator).Enter(t.Context(), config.Uplink(), log, grpc.WithDisableRetry())
	if err == nil || !strings.HasSuffix(err.Error(), "connection refused: is a manager at 127.0.0.1:1?") {
		t.Errorf("%v, want where it has looked", err)
	}
	answered := status.Error(codes.Unauthenticated, "join token refused")
	if said := askedWhere(answered, config.Uplink()); said != "" {
		t.Errorf("who was answered says %q", said)
	}
}

// If another manager takes over within moments, for instance because managers are replaced one by one, that is no news.
// If something does not go on at all that is news, even if managers are heard.
func TestChangingManagersAreNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		u := &Uplink{log: slog.New(slog.NewTextHandler(&said, nil)), transports: newTransports(nil)}
		ctx, cancel := context.WithCancel(t.Context())
		attempts := 0
		err := u.attend(ctx, "register", func(context.Context) error {
			u.reach.heard()
			if warned := strings.Contains(said.String(), "not connected"); warned != (attempts >= manyAttempts) {
				t.Errorf("after %d attempts: %q", attempts, said.String())
			}
			if attempts++; attempts > 2*manyAttempts {
				cancel()
			}
			return status.Error(codes.Unavailable, "this manager no longer leads")
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// However long attempts take, it is told that no manager is heard when the first attempt ends after the patience.
func TestAwayIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		u := &Uplink{log: slog.New(slog.NewTextHandler(&said, nil)), transports: newTransports(nil)}
		u.reach.heard()
		began, took := time.Now(), time.Duration(0)
		ctx, cancel := context.WithCancel(t.Context())
		err := u.attend(ctx, "register", func(context.Context) error {
			if took = time.Since(began); said.Len() > 0 || took > time.Minute {
				cancel()
			}
			time.Sleep(700 * time.Millisecond)
			return status.Error(codes.Unavailable, "signed by another")
		})
		if err != nil || took < awayPatience || took > awayPatience+2300*time.Millisecond {
			t.Errorf("it was told after %v, %v", took, err)
		}
	})
}

// A service that never reaches a manager says so 5 s after it has begun, though its first attempt goes on, and later, but not with every
// attempt; a manager that restarts is no news. A service that was revoked says what to do.
func TestLoneServiceSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said testprocess.Output // written beside the attempts
		u := &Uplink{log: slog.New(slog.NewTextHandler(&said, nil)), transports: newTransports([]string{"10.0.0.5:7400"}), config: Config{CredentialsDir: "/var/lib/agent"}}
		refused, err := status.New(codes.Unauthenticated, "it was revoked").WithDetails(&errdetails.ErrorInfo{Reason: "REVOKED"})
		if err != nil {
			t.Fatal(err)
		}
		attempts, warned := 0, map[int]int{0: 0, 1: 1, 2: 2, 3: 2, 8: 4}
		err = u.attend(t.Context(), "register", func(context.Context) error {
			if want, known := warned[attempts]; known && strings.Count(said.String(), "not connected to a manager") != want {
				t.Errorf("after %d attempts: %s", attempts, said.String())
			}
			time.Sleep(settled + time.Second) // gRPC tries for this long
			if attempts++; attempts > 8 {
				return refused.Err()
			}
			return status.Error(codes.Unavailable, "nobody is there")
		})
		if first := strings.SplitN(said.String(), "\n", 2)[0]; !strings.Contains(first, "00:00:05.000Z") || !strings.Contains(first, `error="no manager has answered at 10.0.0.5:7400"`) {
			t.Errorf("the first that is said is %s", first)
		}
		if err == nil || !strings.Contains(err.Error(), "register: it was revoked, and remove the credentials in /var/lib/agent: ") || status.Code(err) != codes.Unauthenticated {
			t.Errorf("it ends with %v", err)
		}
	})
}

// A service that hears a manager, or ends before, does not say that none has answered; a few attempts that fail are no news before 5 s.
func TestHeardManagersAreNoNews(t *testing.T) {
	for name, heard := range map[string]time.Duration{"heard": 4 * time.Second, "ended": time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			u := &Uplink{log: slog.New(slog.NewTextHandler(&said, nil)), transports: newTransports(nil)}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), awayPatience-500*time.Millisecond)
			defer cancel()
			err := u.attend(ctx, "register", func(context.Context) error {
				if time.Since(began) >= heard {
					u.reach.heard()
					time.Sleep(time.Minute)
				}
				time.Sleep(time.Second)
				return status.Error(codes.Unavailable, "no manager leads")
			})
			time.Sleep(time.Minute)
			if err != nil || said.Len() > 0 {
				t.Errorf("%s: %v, and it says %s", name, err, said.String())
			}
		})
	}
}
