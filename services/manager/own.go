package manager

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

// ownCredentials returns what this manager proves itself with.
func ownCredentials(config *Config, ca *identity.CA, log *slog.Logger) (identity.Source, error) {
	if config.Identity.TLSDir == "" {
		return identity.NewSelfIssued(ca, identity.ID{Role: identity.Manager, Name: config.Name})
	}
	own := &mounted{
		files: identity.FilesIn(config.Identity.TLSDir), dir: config.Identity.TLSDir, trustDomain: config.Identity.TrustDomain,
		authority: ca.Authorities(), log: log,
	}
	if _, err := own.usable(); err != nil { // better now than with the first connection or delivery
		return nil, err
	}
	ca.Managers = own.authorities
	return own, nil
}

// mounted are a manager's own credentials from another issuer. Its clients have theirs from the built-in CA, and know the managers by the
// issuer of these. What nobody would accept does not take the place of what is in use.
type mounted struct {
	files       *identity.Files
	dir         string
	trustDomain string
	authority   [][]byte // the built-in CA
	log         *slog.Logger

	mu    sync.Mutex
	of    *identity.Credentials // what the files had when they were last looked at
	wrong error                 // why nobody would accept that
	good  *identity.Credentials // what they had last that can be used
	made  *identity.Credentials // what was made of that
	said  string                // what is wrong, by the log
}

// check says why credentials cannot be a manager's.
func (m *mounted) check(read *identity.Credentials) error {
	if read.ID.Role != identity.Manager {
		return fmt.Errorf("it is of %s: want a manager's", read.ID)
	}
	if err := read.Check(m.trustDomain, time.Now()); err != nil {
		return fmt.Errorf("other parties refuse it: %w", err)
	}
	_, err := identity.SignCapability(read, identity.Capability{})
	return err
}

// wanted says what has to be in the files.
func (m *mounted) wanted() string {
	uri := identity.ID{Role: identity.Manager, Name: "NAME"}.URI(m.trustDomain)
	return fmt.Sprintf("wanted are tls.crt with the one URI %s, for servers and clients, its ECDSA key in tls.key, and its issuer's certificate in ca.crt", uri)
}

// Credentials implements identity.Source.
func (m *mounted) Credentials() (*identity.Credentials, error) {
	if _, err := m.usable(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made, nil
}

// authorities returns the authorities in the files.
func (m *mounted) authorities() [][]byte {
	good, err := m.usable()
	if err != nil {
		return nil // they were read before
	}
	return good.Authorities
}

// usable returns what the files have, or had last that could be used, and logs what is wrong with them.
func (m *mounted) usable() (*identity.Credentials, error) {
	now, err := m.files.Credentials()
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, m.wanted())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of != now {
		m.of, m.wrong = now, m.check(now)
		if m.wrong == nil {
			if m.made, err = now.Trusting(m.authority...); err != nil {
				return nil, err
			}
			m.good = now
		}
	}
	if m.good == nil {
		return nil, fmt.Errorf("certificate in %s: %w; %s", m.dir, m.wrong, m.wanted())
	}
	m.tell()
	return m.good, nil
}

// tell logs once what is wrong, and once that it is over. The caller has the lock.
func (m *mounted) tell() {
	wrong := m.wrong
	switch trouble := m.files.Trouble(); {
	case trouble != nil:
		wrong = trouble
	case wrong == nil && time.Now().After(m.good.Expiry()):
		wrong = fmt.Errorf("it has expired at %s, and was not renewed", m.good.Expiry().Format(time.RFC3339))
	}
	text := ""
	if wrong != nil {
		text = wrong.Error()
	}
	if text == m.said {
		return
	}
	m.said = text
	if wrong != nil {
		m.log.Warn("the manager's certificate from another issuer is of no use: what could be used last is shown on", "dir", m.dir, "error", wrong, "next", m.wanted())
		return
	}
	m.log.Info("the manager's certificate from another issuer can be used again", "dir", m.dir)
}
