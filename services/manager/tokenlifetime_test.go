package manager_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// Each attempt uses a token of its own, since trying one would use it up.
func TestC30TokenExpires(t *testing.T) {
	m := managertest.Start(t)
	used := useAtOnce(t, m, time.Second)
	var texts []string
	for range 20 {
		texts = append(texts, createToken(t, m.Client(t), time.Second))
	}
	created := time.Now()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for _, text := range texts {
		<-tick.C
		if _, err := enroll(t, m.Address, text, request(t)); err != nil {
			wantTokenRefused(t, err)
			wantUsedOrExpired(t, m, used)
			return
		}
	}
	t.Errorf("a token of 1s is good after %v", time.Since(created))
}

// useAtOnce creates a token and uses it. If this machine took longer than the token lives, it uses another one.
func useAtOnce(t *testing.T, m *managertest.Manager, lifetime time.Duration) (text string) {
	t.Helper()
	client := m.Client(t)
	for range 20 {
		begun := time.Now()
		text = createToken(t, client, lifetime)
		_, err := enroll(t, m.Address, text, request(t))
		if err == nil {
			return text
		}
		if time.Since(begun) < lifetime {
			t.Fatalf("at once: %v", err)
		}
	}
	t.Fatalf("nothing is done here within %v", lifetime)
	return ""
}

// wantUsedOrExpired shows a token again that was used and has expired since. Nothing is known of it any more, and so the answer does not deny
// that it was used.
func wantUsedOrExpired(t *testing.T, m *managertest.Manager, text string) {
	t.Helper()
	_, err := enroll(t, m.Address, text, request(t))
	wantTokenRefused(t, err)
	if !strings.Contains(fmt.Sprint(err), "was used already") {
		t.Errorf("a token that was used and has expired: %v", err)
	}
}

func TestC30TokenLifetimeIsBounded(t *testing.T) {
	client := managertest.Start(t).Client(t)
	for _, lifetime := range []time.Duration{-time.Second, time.Millisecond, 10*time.Minute + time.Second, 24 * time.Hour} {
		_, _, err := client.CreateToken(t.Context(), sdk.Token{Role: "member", Name: "alice", Groups: []string{"models"}, Lifetime: lifetime})
		if sdk.CodeOf(err) != sdk.InvalidArgument {
			t.Errorf("lifetime %v: %v, want it refused", lifetime, err)
		}
	}
	if _, _, err := client.CreateToken(t.Context(), sdk.Token{Role: "manager", Name: "m2"}); sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("role manager: %v, want it refused", err)
	}
}
