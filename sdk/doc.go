// Package sdk is the Go client of Groupcast. With it a program creates groups,
// joins them as a member, sees who else is there, sends to them and receives: see the examples of Session.
//
//	client, err := sdk.Open("admin.yaml")
//	group, err := client.CreateGroup(ctx, "models", sdk.Policy{})
//	session, err := client.Join(ctx, sdk.Join{Group: "models", Name: "node-7"})
//	for event, err := range session.Events(ctx) { … }
//	err = session.Leave(ctx)
//
// Every call takes a context and ends with it. What it has begun goes on: a session until it is left or closed, a delivery until it has ended
// at all members, Outgoing.Cancel ends it, or its session is closed. Calls that change something can be repeated safely: the client gives each
// one an id, and tries again by itself what the managers cannot do for the moment, as while none leads: as long as the call's context lasts, up
// to 10 minutes; if that has no deadline, for some 8 s. The error is then what was in the way.
package sdk
