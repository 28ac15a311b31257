package receive

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/groupcast/groupcast/internal/object"
)

// thatIsThere is the landing of what is whole.
type thatIsThere struct{ Landing }

// A receiver that waits for another replication of the same looks again what is there when that is done, although what was there before
// was something else.
func TestWhoWaitedLooksAgainWhatIsThere(t *testing.T) {
	whole, opened := false, 0
	config := Config{
		Waits: true,
		Find: func(context.Context, object.Info) (Landing, error) {
			if whole {
				return thatIsThere{}, nil
			}
			return nil, nil
		},
		Open: func(context.Context, object.Info) (Landing, error) {
			opened++
			whole = true // by the other, while this one waits
			return nil, object.ErrBusy
		},
	}
	found, err := land(t.Context(), config, object.Info{Length: 1}, true)
	if found == nil || err != nil || opened != 1 {
		t.Errorf("%v, %v; opened %d times, want that what is there is found", found, err, opened)
	}
}

// A device is busy for whoever looks what is there, too, while an earlier task has it still written: that is waited for.
func TestWhoLooksWhatIsThereWaitsForABusyDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looked := 0
		config := Config{Waits: true, Find: func(context.Context, object.Info) (Landing, error) {
			if looked++; looked < 3 {
				return nil, fmt.Errorf("%w: it is written to", object.ErrBusy)
			}
			return thatIsThere{}, nil
		}}
		if found, err := land(t.Context(), config, object.Info{Length: 1}, false); found == nil || err != nil {
			t.Errorf("%v, %v", found, err)
		}
	})
}
