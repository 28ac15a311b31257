package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/publish"
	"github.com/groupcast/groupcast/services/manager/serviceaccount"
	"github.com/groupcast/groupcast/services/manager/view"
)

// asked reports whether the configuration needs an API server at all.
func (c KubernetesConfig) asked() bool {
	return c.CASecret != "" || c.CAConfigMap != "" || c.OperatorSecret != "" || c.GatewaySecret != "" || len(c.accounts()) > 0
}

// accounts returns what the pods of each ServiceAccount are.
func (c KubernetesConfig) accounts() map[string]identity.Role {
	all := make(map[string]identity.Role)
	for role, accounts := range map[identity.Role][]string{
		identity.Agent: c.AgentAccounts, identity.Gatherer: c.GathererAccounts, identity.Replicator: c.ReplicatorAccounts,
	} {
		for _, account := range accounts {
			all[account] = role
		}
	}
	for _, entry := range c.MemberAccounts {
		account, _, _ := strings.Cut(entry, "=")
		all[account] = identity.Member
	}
	return all
}

// members reads which groups the pods of ServiceAccounts may join, or says all that is wrong with that.
func (c KubernetesConfig) members() (group.Accounts, error) {
	all := make(group.Accounts)
	var problems []error
	for _, entry := range c.MemberAccounts {
		account, name, _ := strings.Cut(entry, "=")
		if err := identity.CheckName(name); err != nil && name != group.AllGroups {
			problems = append(problems, fmt.Errorf("kubernetes.memberAccounts: %q is not namespace/name=group, with %q for all groups: %w", entry, group.AllGroups, err))
		}
		member := serviceaccount.MemberName(account)
		groups := append(all[member].Groups, name)
		slices.Sort(groups)
		all[member] = group.Account{Name: account, Groups: slices.Compact(groups)}
	}
	return all, errors.Join(problems...)
}

// services returns the ServiceAccounts whose pods are agents, gatherers and replicators: no member may have one of them.
func (c KubernetesConfig) services() []string {
	return slices.Concat(c.AgentAccounts, c.GathererAccounts, c.ReplicatorAccounts)
}

// pod is what Kubernetes gives to a manager that is a pod; nil for any other manager.
type pod struct {
	client *kubernetes.Client
	config *Config
}

// apiServer finds the API server; tests have one of their own.
var apiServer = kubernetes.InCluster

func newPod(config *Config) (*pod, error) {
	if !config.Kubernetes.asked() {
		return nil, nil
	}
	client, err := apiServer()
	if err != nil {
		return nil, fmt.Errorf("kubernetes settings: %w", err)
	}
	return &pod{client, config}, nil
}

// openCA opens the CA of this manager, which all managers of the store share.
func (p *pod) openCA(ctx context.Context, env daemon.Env, config *Config) (*identity.CA, error) {
	if p != nil && config.Kubernetes.CASecret != "" {
		if err := p.sharing(env).Run(ctx); err != nil {
			return nil, err
		}
	}
	return identity.OpenCA(config.Identity.CADir, config.Identity.TrustDomain)
}

// mayClaim says why a store that belongs to nobody is not that of this manager's CA.
func (p *pod) mayClaim(ctx context.Context, env daemon.Env) error {
	if p == nil || p.config.Kubernetes.CASecret == "" {
		return nil
	}
	return p.sharing(env).MayClaim(ctx)
}

func (p *pod) sharing(env daemon.Env) publish.Sharing {
	config := p.config
	kind := "embedded"
	if len(config.Store.Endpoints) > 0 {
		kind = "external"
	}
	return publish.Sharing{
		Objects: p.client, Secret: config.Kubernetes.CASecret, Dir: config.Identity.CADir, TrustDomain: config.Identity.TrustDomain,
		Follow: config.Store.Cluster.Self != config.Store.Cluster.First, Founding: foundingFile(config), Store: kind, Log: env.Log,
		MayMake: func(ctx context.Context) error { return unclaimed(ctx, env, config) },
	}
}

// unclaimed says if an etcd elsewhere belongs to a CA already: a new CA would not be its owner.
func unclaimed(ctx context.Context, env daemon.Env, config *Config) error {
	if len(config.Store.Endpoints) == 0 {
		return nil
	}
	state, err := openStore(ctx, env, config, nil)
	if err != nil {
		return err
	}
	defer state.Close()
	owner, err := state.Owner(ctx)
	if err == nil && owner != "" {
		err = fmt.Errorf("the store belongs to the CA %s: put a copy of that back, or all managers and identities are lost to it", owner)
	}
	return err
}

// share keeps the CA in its Secret until ctx is done.
func (p *pod) share(ctx context.Context, env daemon.Env) error {
	if p == nil || p.config.Kubernetes.CASecret == "" {
		return nil
	}
	return p.sharing(env).Keep(ctx)
}

// reviewer returns the reviewer that lets pods in; nil lets none in.
func (p *pod) reviewer() *serviceaccount.Reviewer {
	if p == nil {
		return nil
	}
	accounts := p.config.Kubernetes.accounts()
	if len(accounts) == 0 {
		return nil
	}
	return serviceaccount.New(p.client, p.config.Kubernetes.Audience, accounts)
}

// publish keeps in Kubernetes what others need, until ctx is done.
func (p *pod) publish(ctx context.Context, env daemon.Env, ca *identity.CA, shown *view.View, leading *leadership) error {
	if p == nil {
		return nil
	}
	settings := p.config.Kubernetes
	var credentials []publish.Credential
	if settings.OperatorSecret != "" {
		credentials = append(credentials, publish.Credential{
			Secret: settings.OperatorSecret, ID: identity.ID{Role: identity.Operator, Name: operatorName},
			Endpoint: cmp.Or(settings.OperatorEndpoint, leading.self.Address),
		})
	}
	if settings.GatewaySecret != "" {
		credentials = append(credentials, publish.Credential{
			Secret: settings.GatewaySecret, ID: identity.ID{Role: identity.Gateway, Name: "gateway"}, Hosts: settings.GatewayNames,
		})
	}
	keeper := &publish.Keeper{
		Objects: p.client, CA: ca, ConfigMap: settings.CAConfigMap, Credentials: credentials, Log: env.Log,
		Leading: func() bool { return leading.Registry() != nil },
		Stamp:   func() identity.Stamp { return identity.Stamp(shown.Revision()) + 1 },
	}
	return keeper.Run(ctx)
}
