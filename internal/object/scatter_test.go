package object_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/object"
)

// Bytes that are written in any order land as they would have in theirs, over any
// number of interruptions.
func TestScatteredBytesLand(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		random := rand.NewChaCha8([32]byte{rapid.Byte().Draw(r, "seed")})
		content := make([]byte, rapid.IntRange(1, 1<<20).Draw(r, "length"))
		_, _ = random.Read(content)
		info := object.Info{Name: "file", Kind: object.File, Length: uint64(len(content)), Mode: 0o640, Time: time.Unix(1, 0)}
		for landed := 0; landed < len(content); {
			landing, err := object.Land(t.Context(), dir, info)
			if err != nil {
				r.Fatal(err)
			}
			if landing.Offset() != uint64(landed) {
				r.Fatalf("it goes on at %d, want %d", landing.Offset(), landed)
			}
			landed = rapid.IntRange(landed, len(content)).Draw(r, "landed")
			scatter(r, landing, content[:landed])
			if err := landing.Landed(uint64(landed)); err != nil {
				r.Fatal(err)
			}
			if landed < len(content) {
				if err := landing.Keep(); err != nil {
					r.Fatal(err)
				}
				continue
			}
			if err := landing.Complete(info.Length, object.Sum(content), true); err != nil {
				r.Fatal(err)
			}
		}
		got, err := os.ReadFile(filepath.Join(dir, "file"))
		if err != nil || !bytes.Equal(got, content) {
			r.Fatalf("%d bytes are there (%v), want %d as they were", len(got), err, len(content))
		}
	})
}

// scatter writes what has not landed yet, in pieces, the last ones first.
func scatter(r *rapid.T, landing *object.Landing, content []byte) {
	file, err := landing.Content()
	if err != nil {
		r.Fatal(err)
	}
	piece := rapid.IntRange(1000, 100_000).Draw(r, "piece")
	for end := len(content); end > int(landing.Offset()); {
		begin := max(int(landing.Offset()), end-piece)
		if _, err := file.WriteAt(content[begin:end], int64(begin)); err != nil {
			r.Fatal(err)
		}
		end = begin
	}
}

// A wrong byte that was written into the content is found, as any is.
func TestScatteredDamageIsFound(t *testing.T) {
	landing := land(t, t.TempDir(), hello)
	file, err := landing.Content()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("hullo"), 0); err != nil {
		t.Fatal(err)
	}
	if err := landing.Landed(6); err == nil {
		t.Error("a byte beyond the end has landed")
	}
	if err := landing.Landed(5); err != nil {
		t.Fatal(err)
	}
	if err := completeHello(t, landing); err == nil {
		t.Error("it is complete")
	}
}
