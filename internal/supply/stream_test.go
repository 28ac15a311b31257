package supply_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/supply"
)

// segment is how many bytes are given back at once.
const segment = 16 << 20

// In whatever order bytes come, are sent, sent again and released: what is handed out from an offset on is what came there.
func TestStreamIsWhatCame(t *testing.T) {
	dir := t.TempDir()
	content := random(2, 3*segment)
	rapid.Check(t, func(t *rapid.T) {
		const from = 12345
		s := supply.NewStream(dir, from)
		defer s.Close()
		came, sent := 0, 0
		var inHand []handed
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				n := min(rapid.IntRange(0, segment).Draw(t, "n"), len(content)-came)
				must(t, s.Append(content[came:came+n]))
				came += n
			},
			"send": func(t *rapid.T) {
				at := rapid.IntRange(int(s.Released())-from, came).Draw(t, "at")
				most := rapid.Uint64Range(0, 1<<20).Draw(t, "most")
				portion := next(t, s, uint64(from+at), most)
				if portion.Length == 0 {
					if at < came && most > 0 {
						t.Fatalf("nothing at %d of %d", at, came)
					}
					return
				}
				got := bytesOf(t, s, uint64(from+at), portion)
				if !bytes.Equal(got, content[at:at+len(got)]) {
					t.Fatalf("other bytes at %d", at)
				}
				sent = max(sent, at+len(got))
			},
			"take": func(t *rapid.T) {
				at := rapid.IntRange(int(s.Released())-from, came).Draw(t, "at")
				if portion := next(t, s, uint64(from+at), 1<<20); portion.Length > 0 {
					inHand = append(inHand, handed{at, portion})
				}
			},
			"send what was taken": func(t *rapid.T) {
				if len(inHand) == 0 {
					return
				}
				which := rapid.IntRange(0, len(inHand)-1).Draw(t, "which")
				one := inHand[which]
				got := bytesOf(t, s, uint64(from+one.at), one.portion)
				if !bytes.Equal(got, content[one.at:one.at+len(got)]) {
					t.Fatalf("other bytes at %d", one.at)
				}
				inHand = append(inHand[:which:which], inHand[which+1:]...)
				sent = max(sent, one.at+len(got))
			},
			"release": func(t *rapid.T) { s.Release(rapid.Uint64Range(0, from+3*segment).Draw(t, "up to")) },
			"release all": func(t *rapid.T) {
				kept := s.Kept()
				if gave := s.ReleaseAll(rapid.Uint64Range(0, from+3*segment).Draw(t, "up to")); gave != (s.Kept() < kept) {
					t.Fatalf("gave back: %v; %d were kept, %d are", gave, kept, s.Kept())
				}
			},
			"release all that was sent": func(t *rapid.T) {
				if s.ReleaseAll(from + uint64(sent)); sent == came && s.Kept() != 0 && len(inHand) == 0 {
					t.Fatalf("%d are kept, though all may be given back", s.Kept())
				}
			},
			"": func(t *rapid.T) {
				if s.Arrived() != uint64(from+came) || s.SentUpTo() != uint64(from+sent) || s.Released() > s.SentUpTo() || s.Kept() != s.Arrived()-s.Released() {
					t.Fatalf("%d came, %d was sent, %d released, %d are kept; want %d and %d", s.Arrived(), s.SentUpTo(), s.Released(), s.Kept(), from+came, from+sent)
				}
			},
		})
		wantBye(t, s, s.Arrived()+1)
		if s.Released() > 0 {
			_, err := s.Next(s.Released()-1, 1)
			if from, is := link.NotKept(err); !is || from != s.Released() {
				t.Fatalf("before what is kept: %v, want to be told that it is from %d on", err, s.Released())
			}
		}
		kept := make([]byte, s.Kept()+1)
		n, err := s.ReadAt(kept, s.Released())
		if err != nil || uint64(n) != s.Kept() || !bytes.Equal(kept[:n], content[came-n:came]) {
			t.Fatalf("read %d bytes of the %d that are kept, or other ones: %v", n, s.Kept(), err)
		}
	})
}

// handed is what a stripe has taken and not sent yet.
type handed struct {
	at      int
	portion link.Portion
}

// Bytes that a slow stripe still sends, though another has sent them too and all have them, are given back when the last of
// them is sent, whether or not somebody calls release again.
func TestStreamKeepsWhatIsBeingSent(t *testing.T) {
	for name, release := range map[string]func(*supply.Stream){
		"segments": func(s *supply.Stream) { s.Release(2 * segment) },
		"all":      func(s *supply.Stream) { s.ReleaseAll(2 * segment) },
	} {
		s := supply.NewStream(t.TempDir(), 0)
		defer s.Close()
		content := random(3, 2*segment)
		must(t, s.Append(content))
		slow := next(t, s, 100, 1000)
		for at := uint64(0); at < 2*segment; at += segment {
			bytesOf(t, s, at, next(t, s, at, segment))
		}
		<-s.MoreSent()
		release(s)
		if s.Released() != 0 {
			t.Errorf("%s: %d are released", name, s.Released())
		}
		if got := bytesOf(t, s, 100, slow); !bytes.Equal(got, content[100:1100]) {
			t.Errorf("%s: other bytes", name)
		}
		if s.Released() != 2*segment {
			t.Errorf("%s: %d are released when it was sent", name, s.Released())
		}
		select {
		case <-s.MoreSent():
		default:
			t.Errorf("%s: who waits for that is not told", name)
		}
	}
}

// A stream that is held hands nothing out, not even its end; whoever waits is told of all that changes.
func TestStreamIsHeldAndEnds(t *testing.T) {
	s := supply.NewStream(t.TempDir(), 0)
	defer s.Close()
	s.Begin(3)
	empty := next(t, s, 0, 10)
	must(t, s.Append([]byte("abc")))
	wantChanged(t, empty)
	s.Hold(true)
	held := next(t, s, 0, 10)
	s.End(&link.End{Length: 3})
	if held.Length != 0 {
		t.Error("something is handed out while it is held")
	}
	if next(t, s, 3, 10).End == nil {
		t.Error("the end is not told to who has all, which needs no room for that")
	}
	wantChanged(t, held)
	s.Hold(false)
	portion := next(t, s, 0, 10)
	if got := bytesOf(t, s, 0, portion); string(got) != "abc" || portion.TreeVersion != 3 {
		t.Errorf("%q by tree version %d", got, portion.TreeVersion)
	}
	if end := next(t, s, 3, 10).End; end == nil || end.Length != 3 {
		t.Errorf("the end is %+v", end)
	}
}
