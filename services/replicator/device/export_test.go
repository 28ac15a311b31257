package device

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/internal/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ClaimOften has landings claim after so little, until the test ends.
func ClaimOften(t *testing.T, bytes uint64) {
	before := claimBytes
	claimBytes = bytes
	t.Cleanup(func() { claimBytes = before })
}

// LookAtOnce has landings look at once whether the device goes on, until the test ends.
func LookAtOnce(t *testing.T) {
	before := haltPatience
	haltPatience = 0
	t.Cleanup(func() { haltPatience = before })
}

// ClaimOf is what is claimed of an object on a device.
func ClaimOf(number, state string, info object.Info) (offset uint64, root object.Root, has bool) {
	c, has := claimsIn(state, number, info).read()
	return c.offset, c.root, has
}

// NumberOf is numberOf.
var NumberOf = numberOf

// SerialIn is serialIn.
var SerialIn = serialIn
