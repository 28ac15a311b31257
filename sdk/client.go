package sdk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/uplink"
)

// Config says how to reach the managers, and as whom. It is the content of the YAML files that `groupcast enroll` and the managers
// write.
type Config = uplink.Config

// ReadConfig reads a configuration file.
func ReadConfig(file string) (Config, error) { return uplink.ReadConfig(file) }

// DefaultTrustDomain is the trust domain of managers that were given no other.
const DefaultTrustDomain = identity.DefaultTrustDomain

// Client is a connection to the managers. It can be used by many goroutines.
type Client struct {
	uplink       *uplink.Uplink
	log          *slog.Logger
	groups       groupv1.GroupServiceClient
	sessions     groupv1.SessionServiceClient
	identities   groupv1.IdentityServiceClient
	managers     groupv1.ManagerServiceClient
	agents       agentv1.AgentServiceClient
	deliveries   groupv1.DeliveryServiceClient
	replications replicav1.ReplicationServiceClient
	replicators  replicav1.ReplicatorServiceClient
	gatherers    gatherv1.GathererServiceClient
	dialer       link.Dialer
	contacts     *link.Contacts // to agents that have just proven who they are
	placed       placed
}

// Option changes how a client works.
type Option func(*options)

type options struct {
	log    *slog.Logger
	dialer Dialer
	away   func(since time.Time)

	unwritten func(why error, lapses time.Time)
}

func choose(opts []Option) options {
	chosen := options{log: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		if opt != nil {
			opt(&chosen)
		}
	}
	return chosen
}

// WithLog has the client log what it recovers from by itself and, at level debug, what each link carried.
func WithLog(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithAway has the client call tell when its sessions and watches have heard no manager for 5 s, with since when, and again, with
// the zero time, when one is heard. Deliveries go on meanwhile. If credentials lapse in that time, as Config.Lapsed says, tell is
// called once more. Nothing waits for it.
func WithAway(tell func(since time.Time)) Option { return func(o *options) { o.away = tell } }

// WithUnwritten has the client call tell when it has renewed its certificate and cannot write it, as on a read-only disk, with why not,
// and when the one that is written lapses: from then on, programs that begin are refused. The client itself goes on, and writes it when it
// can. Close waits for tell.
func WithUnwritten(tell func(why error, lapses time.Time)) Option {
	return func(o *options) { o.unwritten = tell }
}

// Dialer opens connections. A *net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// WithDialer has the client open all its connections, to managers and agents, with a dialer.
func WithDialer(dialer Dialer) Option { return func(o *options) { o.dialer = dialer } }

// Open reads a configuration file and dials.
func Open(file string, opts ...Option) (*Client, error) {
	config, err := ReadConfig(file)
	if err != nil {
		return nil, Because(InvalidArgument, err)
	}
	return Dial(config, opts...)
}

// Dial returns a client. The connection is made when it is first used. Credentials that have lapsed are Forbidden.
func Dial(config Config, opts ...Option) (*Client, error) {
	if err := config.Lapsed(); err != nil {
		return nil, Because(Forbidden, err)
	}
	chosen := choose(opts)
	connection, err := uplink.Dial(config, chosen.log, uplink.Over(chosen.dialer))
	if err != nil {
		return nil, Because(InvalidArgument, err)
	}
	connection.TellAway(chosen.away)
	connection.TellUnwritten(chosen.unwritten)
	if chosen.dialer == nil {
		chosen.dialer = &net.Dialer{}
	}
	return &Client{
		uplink:       connection,
		log:          chosen.log,
		groups:       groupv1.NewGroupServiceClient(connection),
		sessions:     groupv1.NewSessionServiceClient(connection),
		identities:   groupv1.NewIdentityServiceClient(connection),
		managers:     groupv1.NewManagerServiceClient(connection),
		agents:       agentv1.NewAgentServiceClient(connection),
		deliveries:   groupv1.NewDeliveryServiceClient(connection),
		replications: replicav1.NewReplicationServiceClient(connection),
		replicators:  replicav1.NewReplicatorServiceClient(connection),
		gatherers:    gatherv1.NewGathererServiceClient(connection),
		dialer:       chosen.dialer,
		contacts:     link.NewContacts(chosen.dialer, connection.Security(), link.AllKeep),
	}, nil
}

// Close ends the connection. Sessions that were not left expire.
func (c *Client) Close() error {
	c.contacts.Close()
	return c.uplink.Close()
}

// Connected reports whether there is a connection to a manager. There is none before the first call, nor while all are away.
func (c *Client) Connected() bool { return c.uplink.GetState() == connectivity.Ready }

// Connecting reports whether a manager was called, and there is no connection to one yet.
func (c *Client) Connecting() bool {
	state := c.uplink.GetState()
	return state == connectivity.Connecting || state == connectivity.TransientFailure
}

// HandshakeError returns why whoever answered at a manager's address last was not taken for a manager; nil if it was, or if nobody
// answered.
func (c *Client) HandshakeError() error { return c.uplink.HandshakeError() }

// Identity returns who the client is, as role/name.
func (c *Client) Identity() (string, error) {
	id, err := c.uplink.ID()
	return id.String(), err
}

// Enroll exchanges a join token for credentials, writes them where the configuration
// says, and returns whose they are, as role/name.
func Enroll(ctx context.Context, config Config, token string, opts ...Option) (name string, err error) {
	return EnrollAs(ctx, config, "", token, opts...)
}

// EnrollAs is Enroll with a token that has to be of a role. A token of another role is refused with the reason TOKEN_ROLE, and can
// still be used; managers of earlier versions take it all the same.
func EnrollAs(ctx context.Context, config Config, role, token string, opts ...Option) (name string, err error) {
	id, err := uplink.Enroll(ctx, config, identity.Role(role), token, uplink.Over(choose(opts).dialer))
	if errors.Is(err, identity.ErrToken) {
		return "", Because(InvalidArgument, err)
	}
	if err != nil {
		return "", wrap(err)
	}
	return id.String(), nil
}

// EnrollPod exchanges the token of this pod's ServiceAccount, which the configuration names, for credentials, writes them
// where it says, and returns whose they are, as role/name.
func EnrollPod(ctx context.Context, config Config, opts ...Option) (name string, err error) {
	id, err := uplink.EnrollPod(ctx, config, "", uplink.Over(choose(opts).dialer))
	if err != nil {
		return "", notEntered(err)
	}
	return id.String(), nil
}

// EnterPod is EnrollPod if the configuration names a token, and the credentials are missing or have expired. Good ones are renewed by
// the client itself.
func EnterPod(ctx context.Context, config Config, opts ...Option) error {
	return notEntered(config.EnterPod(ctx, uplink.Over(choose(opts).dialer)))
}

func notEntered(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return Because(InvalidArgument, err)
	}
	return wrap(err)
}

// SessionName returns the default name of this client's sessions: the member's name, or NAME.POD in a pod that is let in by its
// ServiceAccount, since all pods of the account are the same member. It is empty if the client is no member.
func (c *Client) SessionName() (string, error) {
	id, err := c.uplink.ID()
	if err != nil || id.Role != identity.Member {
		return "", err
	}
	return id.Session(c.uplink.PodSession()), nil
}

// requestID returns an id by which managers know a repeated request.
func requestID() string { return rand.Text() }

// CreateGroup makes a group. What the policy leaves open is decided by the manager.
func (c *Client) CreateGroup(ctx context.Context, name string, policy Policy) (Group, error) {
	message, err := policy.message()
	if err != nil {
		return Group{}, err
	}
	answer, err := c.groups.CreateGroup(ctx, &groupv1.CreateGroupRequest{Name: name, Policy: message, RequestId: requestID()})
	return newGroup(answer.GetGroup()), wrap(err)
}

// Group returns a group.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	answer, err := c.groups.GetGroup(ctx, &groupv1.GetGroupRequest{Name: name})
	return newGroup(answer.GetGroup()), wrap(err)
}

// Groups returns all groups, in the order of their names.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	return collect(func(token string) ([]*groupv1.Group, string, error) {
		answer, err := c.groups.ListGroups(ctx, &groupv1.ListGroupsRequest{PageToken: token, PageSize: pageSize})
		return answer.GetGroups(), answer.GetNextPageToken(), err
	}, newGroup)
}

// UpdateGroup changes those fields of a group's policy that are named, such as "ack_level" or "limits.max_members"; all of it if none
// are. With an etag, the group is changed only if it is still as it was when that was read.
func (c *Client) UpdateGroup(ctx context.Context, name string, policy Policy, etag string, fields ...string) (Group, error) {
	message, err := policy.message()
	if err != nil {
		return Group{}, err
	}
	answer, err := c.groups.UpdateGroup(ctx, &groupv1.UpdateGroupRequest{
		Name: name, Policy: message, UpdateMask: &fieldmaskpb.FieldMask{Paths: fields}, Etag: etag, RequestId: requestID(),
	})
	return newGroup(answer.GetGroup()), wrap(err)
}

// DeleteGroup removes a group; with force, even if members are joined or deliveries run.
func (c *Client) DeleteGroup(ctx context.Context, name string, force bool) error {
	_, err := c.groups.DeleteGroup(ctx, &groupv1.DeleteGroupRequest{Name: name, Force: force, RequestId: requestID()})
	return wrap(err)
}

// Members returns the members of a group, in the order of their names.
func (c *Client) Members(ctx context.Context, group string) ([]Member, error) {
	return collect(func(token string) ([]*groupv1.Member, string, error) {
		answer, err := c.sessions.ListMembers(ctx, &groupv1.ListMembersRequest{Group: group, PageToken: token, PageSize: pageSize})
		return answer.GetMembers(), answer.GetNextPageToken(), err
	}, newMember)
}

// Agents returns all session agents, in the order of their names.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	return collect(func(token string) ([]*agentv1.Agent, string, error) {
		answer, err := c.agents.ListAgents(ctx, &agentv1.ListAgentsRequest{PageToken: token, PageSize: pageSize})
		return answer.GetAgents(), answer.GetNextPageToken(), err
	}, newAgent)
}

// Status says which manager answers, who leads, and what they hold.
func (c *Client) Status(ctx context.Context) (Status, error) {
	answer, err := c.managers.GetStatus(ctx, &groupv1.GetStatusRequest{})
	return newStatus(answer), wrap(err)
}

// Token is what a join token is for.
type Token struct {
	// Role is one of member, agent, gatherer, replicator, operator.
	Role string
	Name string
	// Groups are those that a member may join; "*" stands for all.
	Groups []string
	// Lifetime is how long the token can be used; zero is the longest, 10 minutes.
	Lifetime time.Duration
}

// CreateToken makes a join token, which can be exchanged once for credentials.
func (c *Client) CreateToken(ctx context.Context, token Token) (text string, lifetime time.Duration, err error) {
	request := &groupv1.CreateTokenRequest{Role: token.Role, Name: token.Name, Groups: token.Groups}
	if token.Lifetime != 0 {
		request.Lifetime = durationpb.New(token.Lifetime)
	}
	answer, err := c.identities.CreateToken(ctx, request)
	return answer.GetToken(), answer.GetLifetime().AsDuration(), wrap(err)
}

// Revoke refuses all credentials of an identity, and ends its sessions.
func (c *Client) Revoke(ctx context.Context, role, name string) error {
	_, err := c.identities.RevokeIdentity(ctx, &groupv1.RevokeIdentityRequest{Role: role, Name: name})
	return wrap(err)
}

// Admit lets an identity that was revoked in again by its pod's ServiceAccount, without a join token having to be brought there. For a
// member, groups are those that it may join until its next pod gets in. Admit makes a join token and uses it up, which has this
// effect; nobody can use the certificate that results, as its key is not kept.
func (c *Client) Admit(ctx context.Context, role, name string, groups ...string) error {
	token, _, err := c.CreateToken(ctx, Token{Role: role, Name: name, Groups: groups})
	if err != nil {
		return err
	}
	key, err := identity.NewKey()
	if err != nil {
		return err
	}
	_, err = c.identities.Enroll(ctx, &groupv1.EnrollRequest{Token: token, Role: role, CertificateRequest: key.Request()})
	return wrap(err)
}

// pageSize is how many records are asked for at once.
const pageSize = 1000

// collect reads all pages of a list.
func collect[M, R any](read func(token string) ([]M, string, error), convert func(M) R) ([]R, error) {
	records := []R{}
	for token := ""; ; {
		page, next, err := read(token)
		if err != nil {
			return nil, wrap(err)
		}
		for _, message := range page {
			records = append(records, convert(message))
		}
		if next == "" {
			return records, nil
		}
		if next == token {
			return nil, fmt.Errorf("list: the manager repeats page %q", token)
		}
		token = next
	}
}
