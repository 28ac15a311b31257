package uplink

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"google.golang.org/grpc/connectivity"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// renewalCheck is how often it is checked whether the certificate is due for renewal.
const renewalCheck = 20 * time.Second

// renewalGrace is how long a renewal may take although the uplink is closed. Commands close it as soon as they have their answer: otherwise
// they would never renew a certificate, however often they run.
const renewalGrace = 2 * time.Second

// withGrace returns a context for a renewal that begins now. It ends with ctx, but not before the grace is over, unless it is known by
// then that no manager is reached. Who calls nobody else, as an upload to an address, may be done before there is a connection.
func (u *Uplink) withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	end := time.Now().Add(renewalGrace)
	forget := context.AfterFunc(ctx, func() {
		defer cancel()
		grace, stop := context.WithDeadline(renewing, end)
		defer stop()
		for state := u.GetState(); state != connectivity.TransientFailure && u.WaitForStateChange(grace, state); {
			state = u.GetState()
		}
	})
	return renewing, func() { forget(); cancel() }
}

// TellUnwritten has tell called when the certificate is renewed and cannot be written, with why not, and when what the files have lapses.
// While that lasts it is not called again. Close waits for it.
func (u *Uplink) TellUnwritten(tell func(why error, lapses time.Time)) {
	if tell != nil {
		u.tellUnwritten.Store(&tell)
	}
}

func (u *Uplink) keepRenewed(ctx context.Context) {
	lapsed := false
	for {
		if err := u.renewIfDue(ctx); err != nil && ctx.Err() == nil {
			u.log.Warn("the certificate could not be renewed; trying again", "error", err)
		}
		if is := u.lapsed(); is != lapsed {
			lapsed = is
			u.reach.tellAgain()
		}
		if !sleep(ctx, renewalCheck) {
			return
		}
	}
}

// lapsed reports whether no manager accepts the credentials any more.
func (u *Uplink) lapsed() bool {
	current, err := u.files.Credentials()
	return err == nil && lapsed(current)
}

func (u *Uplink) renewIfDue(ctx context.Context) error {
	current, err := u.files.Credentials()
	if err != nil {
		return err
	}
	written, unwritten := u.files.WriteAdopted()
	if written { // that it could not be was said when it was renewed
		u.log.Info("the renewed certificate is written")
	}
	if !current.RenewalDue(time.Now()) {
		return nil
	}
	ctx, cancel := u.withGrace(ctx)
	defer cancel()
	if u.config.ServiceAccountTokenFile != "" { // it also works when the certificate has expired
		_, err = EnrollPod(ctx, u.config, "", u.opts...)
		return err
	}
	isPod := u.config.tickets.ServiceAccountToken != ""
	if isPod && lapsed(current) {
		return u.enterAgain(ctx)
	}
	renewed, err := certify(func(request []byte) (*groupv1.Certificate, error) {
		answer, err := groupv1.NewIdentityServiceClient(u).Renew(ctx, &groupv1.RenewRequest{CertificateRequest: request})
		return answer.GetCertificate(), err
	})
	if unknown := new(x509.UnknownAuthorityError); err != nil && isPod && errors.As(u.HandshakeError(), unknown) {
		return u.enterAgain(ctx)
	}
	if err != nil {
		return err
	}
	if err := u.files.Adopt(renewed); err != nil {
		u.log.Warn("the renewed certificate is in memory alone, and lost with this process; trying again to write it", "error", err)
		if tell := u.tellUnwritten.Load(); tell != nil && unwritten == nil { // current is what the files have
			(*tell)(err, current.Expiry().Add(identity.ClockTolerance))
		}
	}
	return nil
}

// enterAgain lets a service in a pod in as when it started: the API server vouches for it, however long it reached no manager, and whichever CA
// the managers have now.
func (u *Uplink) enterAgain(ctx context.Context) error {
	err := u.config.tickets.showAccount(ctx, u.config, u.opts)
	if err == nil {
		u.log.Info("let in again by the ServiceAccount's token")
		u.transports.renew()
	}
	return err
}
