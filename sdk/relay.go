package sdk

import "context"

// RelayAccess lets this member run a session agent of its group, which relays what is delivered there as long as the session lasts. It
// writes the agent's credentials to a directory, and returns the configuration for the process that is the agent, such as
// groupcast-agent. The group's policy has to let members relay.
func (s *Session) RelayAccess(ctx context.Context, dir string) (Config, error) {
	config, err := s.client.uplink.IssueRelay(ctx, s.member.Group, s.member.Name, dir)
	return config, wrap(err)
}
