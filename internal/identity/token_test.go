package identity_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/identity"
)

func TestTokensAreReadAsWritten(t *testing.T) {
	token := identity.NewToken(identity.Fingerprint{1, 2, 3})
	for _, text := range []string{token.String(), " " + token.String() + "\n"} {
		if back, err := identity.ParseToken(text); err != nil || back != token {
			t.Errorf("%q became %v: %v", text, back, err)
		}
	}
	if !token.Matches(token.Hash()) {
		t.Error("a token does not match its own hash")
	}
	if other := identity.NewToken(token.CA); other.ID == token.ID || other.Secret == token.Secret || other.Matches(token.Hash()) {
		t.Error("two tokens are alike")
	}
	if token.Matches(nil) {
		t.Error("a token matches where none is kept")
	}
}

func TestTextsThatAreNoTokens(t *testing.T) {
	good := identity.NewToken(identity.Fingerprint{}).String()
	parts := strings.Split(good, ".")
	for _, bad := range []string{
		"", "gct1", "gct1...", "letmein",
		strings.Join(parts[:3], "."), good + ".more", "gct2" + good[4:],
		good[:len(good)-1], good + "A",
		strings.Replace(good, parts[1], parts[1][1:], 1),
		strings.Replace(good, parts[2], parts[2]+"A", 1),
		strings.Replace(good, parts[2], strings.Repeat("!", 43), 1),
		strings.Replace(good, parts[3], "", 1),
	} {
		if _, err := identity.ParseToken(bad); !errors.Is(err, identity.ErrToken) {
			t.Errorf("%q: %v, want it refused", bad, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(identity.NewToken(identity.Fingerprint{}).String())
	f.Add("gct1.AAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("gct1.\nAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB")
	f.Add("gct1...")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := identity.ParseToken(text)
		if err != nil {
			if !errors.Is(err, identity.ErrToken) {
				t.Errorf("%q: %v is no ErrToken", text, err)
			}
			return
		}
		if strings.ContainsFunc(token.ID+token.Secret, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
			t.Errorf("%q was read with an id or secret of other characters: %q %q", text, token.ID, token.Secret)
		}
		if back, err := identity.ParseToken(token.String()); err != nil || back != token {
			t.Errorf("%q was read as %v, and that as %v: %v", text, token, back, err)
		}
	})
}
