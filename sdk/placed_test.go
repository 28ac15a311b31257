package sdk

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/object"
)

// What a later delivery has put into a place stays, unless the other object is the same.
func TestTheLaterObjectStays(t *testing.T) {
	var p placed
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	one, other := object.Root{1}, object.Root{2}
	for _, step := range []struct {
		what    string
		path    string
		created time.Time
		root    object.Root
		want    error
	}{
		{"the first", "into/a", at(20), one, nil},
		{"an earlier one", "into/a", at(10), other, errSuperseded},
		{"an earlier one with the same content", "into/a", at(10), one, nil},
		{"one between them, after that", "into/a", at(15), other, errSuperseded},
		{"an earlier one elsewhere", "into/b", at(10), other, nil},
		{"a later one", "into/a", at(30), other, nil},
		{"the first again", "into/a", at(20), one, errSuperseded},
	} {
		isPut := false
		err := p.at(step.path).put(step.created, step.root, func() error { isPut = true; return nil })
		if !errors.Is(err, step.want) || isPut != (step.want == nil) {
			t.Errorf("%s: %v, put: %t, want %v", step.what, err, isPut, step.want)
		}
	}
	if failed := errors.New("no room"); !errors.Is(p.at("into/c").put(at(40), one, func() error { return failed }), failed) {
		t.Error("it is not told that it could not be put there")
	}
	if err := p.at("into/c").put(at(5), other, func() error { return nil }); err != nil {
		t.Errorf("what could not be put there counts: %v", err)
	}
	p.at("into/d").found(at(40), one)
	if err := p.at("into/d").put(at(30), other, func() error { return nil }); !errors.Is(err, errSuperseded) {
		t.Errorf("what was there already does not count: %v", err)
	}
}

// However many places are noted, those at which something lands are not forgotten: a second delivery would land there, too.
func TestPlacesInUseAreKept(t *testing.T) {
	var p placed
	first := p.at("into/first")
	_, release := first.landing.take(t.Context(), &receiving{})
	for i := range 3 * mostPlaces {
		p.at(fmt.Sprint("into/", i))
	}
	if len(p.places) > mostPlaces {
		t.Errorf("%d places are noted, want %d at most", len(p.places), mostPlaces)
	}
	if p.at("into/first") != first {
		t.Error("a place at which something lands is forgotten")
	}
	release()
	for i := range mostPlaces {
		p.at(fmt.Sprint("into/other/", i))
	}
	if p.at("into/first") == first {
		t.Error("a place at which nothing lands any more is noted for ever")
	}
}
