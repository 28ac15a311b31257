package paper002

import (
	"testing"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
)

// A link on a long path with a short queue is not held up by what it lost when it started: after four seconds it has brought
// more than a plain TCP connection, which needs no TLS handshake.
func TestLinksStartWell(t *testing.T) {
	labtest.Require(t)
	came := map[string][]float64{}
	for _, s := range starters() {
		at, err := s.on(t.Context(), beginnings[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.2f MB after %v", s.name, at, marks)
		came[s.name] = at
	}
	last := len(marks) - 1
	plain, link := came["a plain connection"][last], came["a link that tunes itself"][last]
	if link < 1.2*plain {
		t.Errorf("after %v a link has brought %.2f MB, a plain connection %.2f", marks[last], link, plain)
	}
}
