package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that the API's edge tells apart. Each is wrapped with what it is about.
var (
	// ErrNotFound says that there is no such thing.
	ErrNotFound = errors.New("not found")
	// ErrExists says that there is one of this name already.
	ErrExists = errors.New("exists already")
	// ErrReused says that a request_id came with another request before.
	ErrReused = errors.New("request_id was used for another request")
	// ErrContention says that others changed the same thing again and again meanwhile.
	ErrContention = errors.New("too many changes of the same thing at once: try again")
	// ErrNotLeading says that this manager no longer leads.
	ErrNotLeading = errors.New("this manager no longer leads: try again")
	// ErrReplaced says that a newer incarnation of the same name has come.
	ErrReplaced = errors.New("a newer incarnation of the same name has come")
)

// RateLimited says that a caller does something too often.
type RateLimited struct {
	What  string
	Retry time.Duration
}

func (e *RateLimited) Error() string {
	return fmt.Sprintf("%s too often: try again in %v", e.What, e.Retry.Round(time.Millisecond))
}

// Invalid says what is wrong with a request, field by field.
type Invalid struct{ Violations []Violation }

// Violation is what is wrong with one field.
type Violation struct{ Field, Problem string }

func (e *Invalid) Error() string {
	problems := make([]string, len(e.Violations))
	for i, violation := range e.Violations {
		problems[i] = violation.Field + ": " + violation.Problem
	}
	return strings.Join(problems, "; ")
}

// Checks collects violations.
type Checks struct{ violations []Violation }

// maxViolations is how many problems of one request are told.
const maxViolations = 20

// That notes a problem with a field unless ok.
func (c *Checks) That(ok bool, field, problem string, args ...any) {
	if !ok && len(c.violations) < maxViolations {
		c.violations = append(c.violations, Violation{field, fmt.Sprintf(problem, args...)})
	}
}

// No notes an error of a field.
func (c *Checks) No(field string, err error) {
	if err != nil && len(c.violations) < maxViolations {
		c.violations = append(c.violations, Violation{field, err.Error()})
	}
}

// leastRate is the least rate, in bytes per second, at which a neighbour is heard in time.
const leastRate = 4 << 10

// Rate notes a limit of bytes per second that is so low that neighbours would take each other for gone; zero is no limit.
func (c *Checks) Rate(field string, limit uint64) {
	c.That(limit == 0 || limit >= leastRate, field, "is %d bytes per second: want %d at least, as neighbours would take each other for gone", limit, leastRate)
}

// Err returns an *Invalid with all that was noted, or nil.
func (c *Checks) Err() error {
	if len(c.violations) == 0 {
		return nil
	}
	return &Invalid{c.violations}
}
