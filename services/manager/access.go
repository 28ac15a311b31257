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

// accessRetry is how soon a configuration that could not be written is written again.
const accessRetry = 2 * time.Second

// keepAccess writes the first operator's configuration, calls written, and keeps its certificate fresh.
func keepAccess(ctx context.Context, env daemon.Env, config *Config, ca *identity.CA, shown *view.View, address string, written func()) error {
	if config.Admin.File == "" {
		written()
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
		next, authorities := identity.CertificateLifetime/2, ca.AuthoritiesPEM()
		bundle, err := ca.IssueBundle(identity.ID{Role: identity.Operator, Name: operatorName}, identity.Stamp(shown.Revision())+1)
		if err == nil {
			err = identity.FilesIn(directory).Write(bundle)
		}
		if err == nil {
			err = access.Write(file)
		}
		if err == nil {
			written()
		} else {
			next = accessRetry
			env.Log.Warn("the operator's configuration could not be written; trying again", "file", file, "error", err)
		}
		if !pauseWith(ctx, ca, authorities, next) {
			return nil
		}
	}
}

// accessLook is how often it is looked whether the authorities have changed.
const accessLook = 2 * time.Second

// pauseWith waits for so long, or until the authorities have changed, as those of another issuer may. It reports false when ctx is done.
func pauseWith(ctx context.Context, ca *identity.CA, before []byte, most time.Duration) bool {
	for end := time.Now().Add(most); time.Now().Before(end) && bytes.Equal(before, ca.AuthoritiesPEM()); {
		if !pause.For(ctx, min(accessLook, time.Until(end))) {
			return false
		}
	}
	return true
}

// credentialsBeside names the directory of a configuration's credentials after its file: another manager's configuration may lie beside it.
func credentialsBeside(file string) string {
	name := filepath.Base(file)
	if short := strings.TrimSuffix(name, filepath.Ext(name)); short != "" && short != name {
		return short
	}
	return name + ".operator"
}
