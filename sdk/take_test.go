package sdk

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// What stripes bring lands whole, in whatever order, and even if a slow one and one that helps it bring the same.
func TestStripesLandTheSameBytes(t *testing.T) {
	const size, piece = 1 << 20, 1 << 16
	random := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	for range 20 {
		dir := t.TempDir()
		landing, err := object.Land(t.Context(), dir, object.Info{Name: "it", Kind: object.File, Length: size, Mode: 0o600})
		if err != nil {
			t.Fatal(err)
		}
		store := &landingStore{receiving: &receiving{changed: make(chan struct{})}, landing: landing}
		// Every piece comes twice, a little of one after a little of another.
		var underWay []*section
		for at := uint64(0); at < size; at += piece {
			for range 2 {
				place, _, err := store.Section(at)
				if err != nil {
					t.Fatal(err)
				}
				underWay = append(underWay, place.To.(*section))
			}
		}
		came := make(map[uint64]uint64) // of each piece
		for upTo := uint64(0); len(underWay) > 0; {
			i := random.IntN(len(underWay))
			one := underWay[i]
			end := (one.at/piece + 1) * piece
			first := end - piece
			step := min(end-one.at, 1+random.Uint64N(piece/3))
			if n, err := one.Write(content[one.at : one.at+step]); err != nil || uint64(n) != step {
				t.Fatal(n, err)
			}
			came[first] = max(came[first], one.at-first)
			if one.at == end {
				underWay = slices.Delete(underWay, i, i+1)
			}
			for came[upTo/piece*piece] > upTo%piece {
				upTo = upTo/piece*piece + came[upTo/piece*piece]
			}
			if err := store.Landed(upTo); err != nil {
				t.Fatal(err)
			}
		}
		var hash digest.Hash
		_, _ = hash.Write(content)
		if err := landing.Complete(size, hash.Sum(), false); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "it")); err != nil || !slices.Equal(got, content) {
			t.Fatalf("%d bytes landed, %v: they are not what came", len(got), err)
		}
	}
}

// Bytes whose place cannot be known yet are the parent's fault, not the disk's: another parent may do better.
func TestBytesAheadOfADirectorysHeadAreRefused(t *testing.T) {
	landing, err := object.Land(t.Context(), t.TempDir(), object.Info{Name: "it", Kind: object.Directory, Length: 1 << 20, Mode: 0o700})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = landing.Keep() }() // nothing has landed
	store := &landingStore{receiving: &receiving{changed: make(chan struct{})}, landing: landing}
	place, _, err := store.Section(1 << 19)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := place.To.Write(make([]byte, 100)); !errors.Is(err, relay.ErrProtocol) || fatal(err) {
		t.Errorf("%v, want that it breaks the protocol", err)
	}
}
