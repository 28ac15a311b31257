package manager

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/manager/view"
)

// operatorName is the name of the operator whose configuration a manager writes.
const operatorName = "admin"

// keepAccess writes the first operator's configuration, calls tried whenever it has, or could not, and keeps its certificate fresh, and the
// authorities beside it, which may be another issuer's and change.
func keepAccess(ctx context.Context, env daemon.Env, config *Config, ca *identity.CA, shown *view.View, address string, tried func(error)) error {
	if config.Admin.File == "" {
		tried(nil)
		return nil
	}
	file, err := filepath.Abs(config.Admin.File)
	if err != nil {
		return fmt.Errorf("write adminAccess.file: %w", err)
	}
	credentials := credentialsBeside(file)
	directory := filepath.Join(filepath.Dir(file), credentials)
	access := uplink.Config{Endpoints: []string{reachable(address)}, TrustDomain: config.Identity.TrustDomain, CredentialsDir: credentials}
	for {
		authorities := ca.AuthoritiesPEM()
		bundle, err := ca.IssueBundle(identity.ID{Role: identity.Operator, Name: operatorName}, identity.Stamp(shown.Revision())+1)
		if err == nil {
			err = identity.FilesIn(directory).Write(bundle)
		}
		if err == nil {
			err = access.Write(file)
		}
		tried(err)
		if err != nil {
			env.Log.Warn("the operator's configuration could not be written; trying again", "file", file, "error", err)
		}
		isDue := func() bool {
			held, unread := identity.FilesIn(directory).Credentials()
			return err != nil || unread != nil || held.RenewalDue(time.Now()) || !bytes.Equal(authorities, ca.AuthoritiesPEM())
		}
		if !pauseUntil(ctx, isDue) {
			return nil
		}
	}
}

// renewalLook is how often it is looked whether a certificate is to be made anew: by the date, since a machine that was suspended, or whose
// date was set, has no other clock that knows of it.
const renewalLook = 2 * time.Second

// pauseUntil waits until something is due. It reports false when ctx is done.
func pauseUntil(ctx context.Context, isDue func() bool) bool {
	for pause.For(ctx, renewalLook) {
		if isDue() {
			return true
		}
	}
	return false
}

// credentialsBeside names the directory of a configuration's credentials after its file: another manager's configuration may lie beside it.
// Earlier versions called it like the operator, and programs that run go on reading what the configuration named when they began.
func credentialsBeside(file string) string {
	if there, err := uplink.ReadConfig(file); err == nil && there.CredentialsDir == filepath.Join(filepath.Dir(file), operatorName) {
		return operatorName
	}
	name := filepath.Base(file)
	for _, kind := range []string{".yaml", ".yml"} {
		if short := strings.TrimSuffix(name, kind); short != "" && short != name {
			return short
		}
	}
	return name + ".operator"
}
