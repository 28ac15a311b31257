package identity_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

func TestClockFollowsTheManagers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock identity.Clock
		if got := clock.Now(); !got.Equal(time.Now()) {
			t.Errorf("the zero clock shows %v, want the local time %v", got, time.Now())
		}
		manager := time.Now().Add(-90 * time.Minute)
		clock.Learn(manager)
		synctest.Wait()
		<-time.After(time.Minute)
		if got, want := clock.Now(), manager.Add(time.Minute); !got.Equal(want) {
			t.Errorf("it shows %v, want %v", got, want)
		}
	})
}
