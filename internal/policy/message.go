package policy

import (
	"github.com/groupcast/groupcast/internal/bytesize"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
)

// Message returns the policy as the API has it.
func (p Policy) Message() *gatherv1.Policy {
	message := &gatherv1.Policy{
		DefaultShare: p.Default.Message(), LinkBytesPerSecond: uint64(p.Link), Admission: string(p.Admission), TrustLabels: p.TrustLabels,
	}
	for _, rule := range p.Rules {
		message.Rules = append(message.Rules, &gatherv1.Rule{Clients: rule.Clients, Labels: rule.Labels, Groups: rule.Groups, Share: rule.Message()})
	}
	return message
}

// Message returns the share as the API has it.
func (s Share) Message() *gatherv1.Share {
	return &gatherv1.Share{
		TargetBytesPerSecond: uint64(s.Target), MinimumBytesPerSecond: uint64(s.Minimum), Priority: int32(s.Priority),
		MaxBytesPerSecond: uint64(s.Max), MaxConnections: uint32(s.MaxConnections), MaxStoredBytes: uint64(s.MaxStored),
	}
}

// Of returns what a message of the API says.
func Of(message *gatherv1.Policy) Policy {
	p := Policy{
		Default: ShareOf(message.GetDefaultShare()), Link: bytesize.Size(message.GetLinkBytesPerSecond()),
		Admission: Admission(message.GetAdmission()), TrustLabels: message.GetTrustLabels(),
	}
	for _, rule := range message.GetRules() {
		p.Rules = append(p.Rules, Rule{Clients: rule.GetClients(), Labels: rule.GetLabels(), Groups: rule.GetGroups(), Share: ShareOf(rule.GetShare())})
	}
	return p
}

// ShareOf returns what a message of the API says.
func ShareOf(message *gatherv1.Share) Share {
	return Share{
		Target: bytesize.Size(message.GetTargetBytesPerSecond()), Minimum: bytesize.Size(message.GetMinimumBytesPerSecond()),
		Priority: int(message.GetPriority()), Max: bytesize.Size(message.GetMaxBytesPerSecond()),
		MaxConnections: int(message.GetMaxConnections()), MaxStored: bytesize.Size(message.GetMaxStoredBytes()),
	}
}
