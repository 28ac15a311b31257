package window

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Interval is how long there should be between two steps (003 §III-A: "every fixed time
// (0.5s)").
const Interval = 500 * time.Millisecond

// Controller decides for one gathering server. It belongs to one goroutine.
type Controller interface {
	// Step takes what was seen and returns what to set. now never goes back.
	Step(now time.Time, facts Facts) Decision
	// First is the window of a connection that is accepted before the next step: the clamp of
	// the listening socket. Zero leaves it alone.
	First() int
}

// The names of the controllers.
const (
	Groupcast   = "groupcast"   // ours: the default
	Gathering   = "gathering"   // 003 to the letter: buffers and connections
	Buffers     = "buffers"     // 003 §III-A alone
	Proposed    = "proposed"    // 001 to the letter
	Spring      = "spring"      // 001's reference 1
	Mehra       = "mehra"       // 001's reference 2
	Matsuo      = "matsuo"      // 003's compared method, its reference 8
	Traditional = "traditional" // TCP as it is
)

// Options are what the papers' methods have to be told. Each has a default.
type Options struct{}

var controllers = map[string]func(Options) Controller{
	Traditional: func(Options) Controller { return traditional{} },
}

// Names are all the names there are, in order.
func Names() []string {
	names := make([]string, 0, len(controllers))
	for name := range controllers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New returns the controller of a name.
func New(name string, options Options) (Controller, error) {
	make, is := controllers[name]
	if !is {
		return nil, fmt.Errorf("controller %q is not known: choose one of %s", name, strings.Join(Names(), ", "))
	}
	return make(options), nil
}
