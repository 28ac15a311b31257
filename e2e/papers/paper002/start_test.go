package paper002

import (
	"testing"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
)

// begun returns what each starter has brought on a path, in megabytes at the marks, by its name.
func begun(t *testing.T, b beginning) map[string][]float64 {
	t.Helper()
	labtest.Require(t)
	came := map[string][]float64{}
	for _, s := range starters() {
		at, err := s.on(t.Context(), b, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.2f MB after %v", s.name, at, marks)
		came[s.name] = at
	}
	return came
}

// A link on a long path with a short queue is not held up by what it lost when it started: after four seconds it has brought
// more than a plain TCP connection, which needs no TLS handshake.
func TestLinksStartWell(t *testing.T) {
	came, last := begun(t, beginnings[0]), len(marks)-1
	plain, link := came["a plain connection"][last], came["a link that tunes itself"][last]
	if link < 1.2*plain {
		t.Errorf("after %v a link has brought %.2f MB, a plain connection %.2f", marks[last], link, plain)
	}
}

// Finding out that a path of 100 ms loses packets by itself costs nothing of the first second: a link that may have many stripes has brought
// as much as one that may not, and one to a known peer, which needs no handshakes, as much as a plain connection.
// What was found out pays soon.
func TestFirstSecondIsNotWasted(t *testing.T) {
	came, last := begun(t, lossy), len(marks)-1
	plain, one := came["a plain connection"], came["a link of one stripe"]
	tuned, known := came["a link that tunes itself"], came["a link to a known peer"]
	if tuned[0] < 0.85*one[0] {
		t.Errorf("after %v a link that tunes itself has brought %.2f MB, one that has nothing to find out %.2f", marks[0], tuned[0], one[0])
	}
	if known[0] < 0.7*plain[0] {
		t.Errorf("after %v a link to a known peer has brought %.2f MB, a plain connection %.2f", marks[0], known[0], plain[0])
	}
	if tuned[last] < 1.1*one[last] {
		t.Errorf("after %v a link that tunes itself has brought %.2f MB, one of one stripe %.2f", marks[last], tuned[last], one[last])
	}
}
