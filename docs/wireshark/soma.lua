-- A Wireshark dissector for SOMA's packets as its paper has them. Those of the default profile, which are sealed, it leaves to
-- others: groupcast soma decode tells what of them is in the clear.
--
--   wireshark -X lua_script:docs/wireshark/soma.lua capture.pcap
--   tshark -X lua_script:docs/wireshark/soma.lua -r capture.pcap
--
-- To have it always, copy it into the folder that Help > About > Folders calls personal Lua
-- plugins. The UDP port is a preference (Preferences > Protocols > SOMA).
--
--   0       4     5       7       11
--   | SN    | TOP | PL    | LWSN  | payload ...        all numbers are big-endian

local soma = Proto("soma", "SOMA (SynchrOnous Multicast Application)")

local types = { [1] = "DATA", [2] = "ACK", [3] = "NACK", [4] = "REPAIR-REQUEST", [5] = "REPAIR-RESPONSE" }
local header = 11

local f = {
  sn = ProtoField.uint32("soma.sn", "Sequence number (SN)"),
  top = ProtoField.uint8("soma.top", "Type of packet (TOP)", base.DEC, types),
  pl = ProtoField.uint16("soma.pl", "Packet length (PL)"),
  lwsn = ProtoField.uint32("soma.lwsn", "Last window sequence number (LWSN)"),
  payload = ProtoField.bytes("soma.payload", "Payload"),
  last = ProtoField.bool("soma.last", "Last of its window"),
  final = ProtoField.bool("soma.end", "End of the transfer"),
}
soma.fields = { f.sn, f.top, f.pl, f.lwsn, f.payload, f.last, f.final }

local e = {
  length = ProtoExpert.new("soma.length.wrong", "PL is not the length of the datagram", expert.group.MALFORMED, expert.severity.ERROR),
  lost = ProtoExpert.new("soma.nack", "A client has lost packets before this one", expert.group.SEQUENCE, expert.severity.NOTE),
}
soma.experts = { e.length, e.lost }

soma.prefs.port = Pref.uint("UDP port", 7431, "The UDP port by which SOMA is known")

-- is_soma tells packets of this layout from whatever else uses the port. Those whose length is not what PL says have to look like
-- it otherwise: their window ends after them, and they do not begin as the packets of the default profile do, which are sealed
-- and have the same port: with their kind, 1 to 12.
local function is_soma(buffer)
  if buffer:len() < header or types[buffer(4, 1):uint()] == nil or buffer(0, 4):uint() == 0 then
    return false
  end
  local first = buffer(0, 1):uint()
  local is_other = buffer:reported_len() >= 32 and first >= 1 and first <= 12
  return buffer(5, 2):uint() == buffer:reported_len() or not is_other and buffer(7, 4):uint() >= buffer(0, 4):uint()
end

-- Servers whose port is another than the group's, as the kernel of their machine has chosen it. They are
-- known by what they send to their group, and repairs go between them and their clients.
local servers = {}

function soma.init()
  servers = {}
end

local function at(address, port)
  return tostring(address) .. ":" .. port
end

function soma.dissector(buffer, pinfo, tree)
  if not is_soma(buffer) then
    return 0
  end
  if buffer(4, 1):uint() == 1 and pinfo.dst_port == soma.prefs.port and pinfo.src_port ~= pinfo.dst_port then
    servers[at(pinfo.src, pinfo.src_port)] = true
  end
  local sn, top, pl, lwsn = buffer(0, 4):uint(), buffer(4, 1):uint(), buffer(5, 2):uint(), buffer(7, 4):uint()
  pinfo.cols.protocol = "SOMA"
  pinfo.cols.info = string.format("%s sn %d lwsn %d pl %d", types[top], sn, lwsn, pl)

  local branch = tree:add(soma, buffer(), string.format("SOMA, %s, SN %d", types[top], sn))
  branch:add(f.sn, buffer(0, 4))
  local kind = branch:add(f.top, buffer(4, 1))
  local length = branch:add(f.pl, buffer(5, 2))
  branch:add(f.lwsn, buffer(7, 4))
  if pl ~= buffer:reported_len() then
    length:add_proto_expert_info(e.length)
  end
  if top == 3 then
    kind:add_proto_expert_info(e.lost)
  end
  if top == 1 then
    branch:add(f.last, sn == lwsn):set_generated()
    branch:add(f.final, pl == header):set_generated()
  end
  if buffer:len() > header then
    branch:add(f.payload, buffer(header))
  end
  return buffer:len()
end

-- What goes to or comes from such a server.
soma:register_heuristic("udp", function(buffer, pinfo, tree)
  if not servers[at(pinfo.src, pinfo.src_port)] and not servers[at(pinfo.dst, pinfo.dst_port)] then
    return false
  end
  return soma.dissector(buffer, pinfo, tree) > 0
end)

local ports = DissectorTable.get("udp.port")
local current = soma.prefs.port
ports:add(current, soma)

function soma.prefs_changed()
  if current ~= soma.prefs.port then
    ports:remove(current, soma)
    current = soma.prefs.port
    ports:add(current, soma)
  end
end
