package receive

import (
	"context"
	"errors"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
)

// LandObject begins to receive an object into a directory. What others have left there, and nobody has gone on with for long,
// the next landing removes: sources that changed do not come again.
func LandObject(ctx context.Context, dir string, info object.Info) (*object.Landing, error) {
	landing, err := object.Land(ctx, dir, info)
	if errors.Is(err, object.ErrBusy) {
		return nil, err // it is asked again and again
	}
	removed, _ := object.SweepIn(ctx, dir, object.Abandoned) // what is left is swept another time
	if removed > 0 && errors.Is(err, noroom.Err) {
		return object.Land(ctx, dir, info)
	}
	return landing, err
}
