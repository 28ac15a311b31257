package paper

// SkipTo has a sender be where it has sent this many packets.
func (s *Sender) SkipTo(sent uint32) { s.sent = sent }

// Farewells is how often the end of a stream is sent again.
const Farewells = farewells
