// The page of `nodeless view --web`. Texts of the cluster are only ever set as text, never as HTML.
"use strict";

const byId = (id) => document.getElementById(id);
const MAX_SQUARES = 60;
// More nodes than this are shown as groups, which open.
const MANY_NODES = 40;
// With more pods than this in the cluster, boxes have bars and no square for each pod.
const MANY_PODS = 5000;

let picture = null;
let opened = null;
let explanations = 0;

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "dataset") Object.assign(made.dataset, value);
    else if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const dollars = (price) => (price === null ? "price not known" : `$${price.toFixed(price < 100 ? 4 : 2)}/h`);
const HOURS_PER_MONTH = 730;
const month = (price) => {
  const amount = price * HOURS_PER_MONTH;
  return `$${amount.toFixed(Math.abs(amount) < 100 ? 2 : 0)}/month`;
};
const cost = (price) => (price === null ? dollars(price) : `${dollars(price)}, ${month(price)}`);
const percent = (share) => `${Math.round(share * 100)}%`;
const share = (part, total) => (part === 0 ? 0 : total <= 0 ? 1 : part / total);
// Quantities as Kubernetes writes them, like all output of nodeless: bytes in whole Mi where no larger unit is exact.
const cpus = (millicores) => (millicores % 1000 === 0 ? `${millicores / 1000}` : `${millicores}m`);
const states = { notReady: "not ready" };
const stateName = (state) => states[state] || state;

function memory(bytes) {
  const mi = 2 ** 20;
  const shown = bytes >= 10 * mi ? Math.round(bytes / mi) * mi : bytes;
  const units = [["Ei", 60], ["Pi", 50], ["Ti", 40], ["Gi", 30], ["Mi", 20], ["Ki", 10]];
  const [unit, power] = units.find(([, size]) => shown > 0 && shown % 2 ** size === 0) || ["", 0];
  return `${shown / 2 ** power}${unit}`;
}

const requests = ({ requests: { cpuMillicores, memoryBytes }, extended = {} }) => [`cpu ${cpus(cpuMillicores)}`, `memory ${memory(memoryBytes)}`,
  ...Object.entries(extended).map(([name, amount]) => `${name} ${amount}`)].join(", ");

// GPUs and other resources of a node or of all nodes: [name, "4/8"].
function extended({ extended: { allocatable, requested } }) {
  const names = new Set([...Object.keys(allocatable), ...Object.keys(requested)]);
  return [...names].map((name) => [name, `${requested[name] || 0}/${allocatable[name] || 0}`]);
}

const extendedTexts = (load) => extended(load).map((entry) => entry.join(" "));
const labelTexts = (node) => Object.entries(node.labels).map((entry) => entry.join(" "));

function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 120) return `${whole}s`;
  if (whole < 7200) return `${Math.floor(whole / 60)}m`;
  if (whole < 172800) return `${Math.floor(whole / 3600)}h`;
  return `${Math.floor(whole / 86400)}d`;
}

// The picture is only sent when something changed; ages grow meanwhile.
const now = () => Date.parse(picture.at) + (performance.now() - picture.received);
const age = (time) => (time === null ? "-" : span((now() - Date.parse(time)) / 1000));

function cpuShare(load) {
  return share(load.requested.cpuMillicores, load.allocatable.cpuMillicores);
}

function memoryShare(load) {
  return share(load.requested.memoryBytes, load.allocatable.memoryBytes);
}

const cpuUse = (load) => load.used && share(load.used.cpuMillicores, load.allocatable.cpuMillicores);
const memoryUse = (load) => load.used && share(load.used.memoryBytes, load.allocatable.memoryBytes);

// The expiry of a node is shown in its box if it is nearer than this.
const SOON_SECONDS = 24 * 3600;
const secondsUntil = (time) => (Date.parse(time) - now()) / 1000;

// Nodes

const orders = {
  name: () => 0,
  type: (a, b) => (a.instanceType || "").localeCompare(b.instanceType || ""),
  age: (a, b) => Date.parse(b.created || 0) - Date.parse(a.created || 0),
  price: (a, b) => (b.pricePerHour || 0) - (a.pricePerHour || 0),
  cpu: (a, b) => cpuShare(b.load) - cpuShare(a.load),
  memory: (a, b) => memoryShare(b.load) - memoryShare(a.load),
  pods: (a, b) => b.pods.length - a.pods.length,
  state: (a, b) => stateRank(a.state) - stateRank(b.state),
};

const STATES = ["terminating", "draining", "disrupted", "joining", "notReady", "cordoned", "ready"];
const stateRank = (state) => STATES.indexOf(state);

function matches(words) {
  const filter = byId("filter").value.trim().toLowerCase();
  return filter === "" || words.some((word) => word && word.toLowerCase().includes(filter));
}

function wordsOf(node) {
  const { name, nodePool, nodeClaim, instanceType, zone, capacityType, disruptionReason, state } = node;
  return [name, nodePool, nodeClaim, instanceType, zone, capacityType, disruptionReason, stateName(state), ...Object.values(node.labels)];
}

function stateText(node) {
  const parts = [stateName(node.state)];
  if (node.waitsFor.length > 0) parts.push(`waits for ${counted(node.waitsFor.length, "pod")}`);
  if (node.disruptionReason) parts.push(node.disruptionReason);
  if (node.drifted) parts.push("drifted");
  if (node.protectedBy.length > 0) parts.push("protected");
  if (node.expires !== null && secondsUntil(node.expires) < SOON_SECONDS) parts.push(`expires in ${span(secondsUntil(node.expires))}`);
  return parts.join(", ");
}

// Changes a list of children so that it shows these items, and keeps the elements of items that stay, so that the focus stays.
function keyed(parent, items, keyOf, make, update) {
  const known = new Map();
  for (const child of parent.children) known.set(child.dataset.key, child);
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = known.get(key);
    known.delete(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
    }
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  known.forEach((child) => child.remove());
}

// A bar for requests, and a second one below it for use, where that is known.
function bar(name) {
  const track = () => element("span", { className: "track", "aria-hidden": "true" }, element("b"));
  const tracks = element("span", { className: "tracks" }, track(), track());
  return element("span", { className: "bar" }, element("span", { textContent: name }), tracks, element("span"));
}

function setBar(made, requested, used) {
  const [first, second] = made.children[1].children;
  first.firstElementChild.style.width = `${Math.min(100, requested * 100)}%`;
  second.hidden = used === null;
  second.firstElementChild.style.width = `${Math.min(100, (used || 0) * 100)}%`;
  made.lastElementChild.textContent = used === null ? percent(requested) : `${percent(requested)}, ${percent(used)} used`;
}

function makeBox() {
  const button = element("button", { type: "button", className: "node" },
    element("strong"), element("span", { className: "facts" }), bar("CPU"), bar("memory"),
    element("span", { className: "pods" }), element("span", { className: "state" }));
  button.addEventListener("click", () => open("node", button.dataset.name));
  return element("li", {}, button);
}

function updateBox(item, node) {
  const button = item.firstElementChild;
  const [name, facts, cpu, mem, pods, state] = button.children;
  button.dataset.name = node.name;
  button.dataset.state = node.state;
  name.textContent = node.name;
  name.title = node.name;
  const offering = [node.instanceType, node.capacityType, node.zone].filter(Boolean).join(" ");
  facts.textContent = [offering, dollars(node.pricePerHour), age(node.created), counted(node.pods.length, "pod"),
    ...extendedTexts(node.load), ...labelTexts(node)].join(", ");
  setBar(cpu, cpuShare(node.load), cpuUse(node.load));
  setBar(mem, memoryShare(node.load), memoryUse(node.load));
  squares(pods, node);
  state.textContent = stateText(node);
  state.className = `state ${node.state === "ready" ? "good" : node.state === "notReady" ? "bad" : "notice"}`;
}

function squares(parent, node) {
  const shown = picture.totals.pods > MANY_PODS ? [] : node.pods.slice(0, MAX_SQUARES);
  const more = node.pods.length - shown.length;
  const items = shown.map((pod) => ({ key: `${pod.namespace}/${pod.name}`, pod }));
  if (more > 0 && shown.length > 0) items.push({ key: "more", more });
  keyed(parent, items, (item) => item.key,
    (item) => element(item.pod ? "i" : "small"),
    (child, item) => {
      if (!item.pod) {
        child.textContent = `+${item.more}`;
        return;
      }
      child.title = item.key;
      child.className = `${item.pod.daemonSet ? "daemon" : ""} ${item.pod.terminating ? "terminating" : ""}`.trim();
    });
}

// What the nodes of a section have in common: its name in headings, and its value of a node.
const GROUPS = {
  nodepool: ["NodePool", (node) => node.nodePool],
  zone: ["Zone", (node) => node.zone],
  type: ["Instance type", (node) => node.instanceType],
  "capacity-type": ["Capacity type", (node) => node.capacityType],
};
const groupBy = () => byId("group-by").value;
const valueOf = (node) => GROUPS[groupBy()][1](node);

function sectionName({ name }) {
  const [title] = GROUPS[groupBy()];
  if (name !== null) return `${title} ${name}`;
  return groupBy() === "nodepool" ? "Nodes of no NodePool" : `Nodes without ${title.toLowerCase()}`;
}

// The NodePools with their settings, or the values of what else the user groups by, the most expensive first.
function sections() {
  if (groupBy() === "nodepool") return picture.nodePools;
  const byName = new Map();
  for (const node of picture.nodes) {
    const name = valueOf(node);
    if (!byName.has(name)) byName.set(name, { name, members: [], replicas: null, claims: 0, deleting: false, notReady: null, limits: [] });
    byName.get(name).members.push(node);
  }
  for (const section of byName.values()) {
    section.nodes = section.members.length;
    section.pods = section.members.reduce((sum, node) => sum + node.pods.length, 0);
    section.pricePerHour = priceOf(section.members);
  }
  return [...byName.values()].sort((a, b) => b.pricePerHour - a.pricePerHour);
}

const priceOf = (nodes) => nodes.reduce((sum, node) => sum + (node.pricePerHour || 0), 0);

function makePool() {
  return element("section", { className: "pool" },
    element("h2", {}, document.createTextNode(""), element("span")),
    element("p", { className: "bad" }), element("div", { className: "limits" }),
    element("ul", { className: "groups" }), element("ul", { className: "boxes" }));
}

function updateLimit(label, limit) {
  const resource = limit.resource.replace("nodeless.sh/", "");
  label.firstChild.textContent = `limit ${resource}: ${limit.used} of ${limit.limit} (${percent(limit.share)})`;
  label.lastElementChild.value = Math.min(1, limit.share);
}

function updateLimits(parent, limits) {
  keyed(parent, limits, (limit) => limit.resource,
    () => element("label", {}, document.createTextNode(""), element("meter", { min: 0, max: 1, high: 0.8, optimum: 0 })), updateLimit);
}

// The settings of the whole cluster.
function updateCluster() {
  const { cluster } = picture;
  updateLimits(byId("cluster-limits"), cluster.limits);
  const lines = [];
  if (cluster.disruptionWaits) lines.push({ text: cluster.disruptionWaits, tone: "notice" });
  if (cluster.maintenanceUntil) lines.push({ text: `a maintenance window is open until ${cluster.maintenanceUntil}` });
  keyed(byId("cluster"), lines, (line) => line.text, () => element("li"), (item, line) => fill(item, [line]));
}

// Groups of nodes within a section: those of one NodePool, instance type and capacity type.

const groupOf = (node) => ["nodepool", "type", "capacity-type"].filter((by) => by !== groupBy())
  .map((by) => GROUPS[by][1](node) || "-").join(" ");

function groupsOf(nodes) {
  const groups = new Map();
  for (const node of nodes) {
    const name = groupOf(node);
    if (!groups.has(name)) groups.set(name, { name, nodes: [] });
    groups.get(name).nodes.push(node);
  }
  for (const group of groups.values()) group.price = priceOf(group.nodes);
  return [...groups.values()].sort((a, b) => b.price - a.price);
}

function makeGroup() {
  const details = element("details", {},
    element("summary", {}, element("strong"), element("span", { className: "dim" }), element("span", { className: "cells", "aria-hidden": "true" })),
    element("ul", { className: "boxes" }));
  details.addEventListener("toggle", render);
  return element("li", {}, details);
}

const mean = (nodes, shareOf) => nodes.reduce((sum, node) => sum + shareOf(node.load), 0) / nodes.length;

function updateGroup(item, group) {
  const [summary, boxes] = item.firstElementChild.children;
  const [name, facts, cells] = summary.children;
  const count = (state) => group.nodes.filter((node) => node.state === state).length;
  const states = STATES.filter((state) => state !== "ready" && count(state) > 0).map((state) => `${count(state)} ${stateName(state)}`);
  name.textContent = group.name;
  facts.textContent = [counted(group.nodes.length, "node"), cost(group.price), `CPU ${percent(mean(group.nodes, cpuShare))}`,
    `memory ${percent(mean(group.nodes, memoryShare))}`, ...extendedOf(group.nodes), ...states].join(", ");
  const ordered = [...group.nodes].sort((a, b) => stateRank(a.state) - stateRank(b.state) || a.name.localeCompare(b.name));
  keyed(cells, ordered, (node) => node.name, () => element("i", {}, element("b")), updateCell);
  keyed(boxes, item.firstElementChild.open ? group.nodes : [], (node) => node.name, makeBox, updateBox);
}

// The sums of extended resources that are counted; those in bytes are on the page of a node.
function extendedOf(nodes) {
  const sums = new Map();
  for (const [name, text] of nodes.flatMap((node) => extended(node.load))) {
    const [requested, allocatable] = text.split("/").map(Number);
    const sum = sums.get(name) || [0, 0];
    sums.set(name, [sum[0] + requested, sum[1] + allocatable]);
  }
  return [...sums].filter(([, sum]) => !sum.some(Number.isNaN)).map(([name, sum]) => `${name} ${sum.join("/")}`);
}

// A cell is filled by requests; a node that is not ready has a letter.
function updateCell(cell, node) {
  const full = Math.max(cpuShare(node.load), memoryShare(node.load));
  cell.dataset.state = node.state;
  cell.dataset.letter = { joining: "J", draining: "D", terminating: "T", disrupted: "X", notReady: "N", cordoned: "C" }[node.state] || "";
  cell.firstElementChild.style.height = `${Math.min(100, full * 100)}%`;
  cell.title = `${node.name}: ${stateText(node)}, ${percent(full)}`;
}

function updatePool(section, pool) {
  const [title, problem, limits, groups, boxes] = section.children;
  title.firstChild.textContent = sectionName(pool);
  const facts = [counted(pool.nodes, "node"), counted(pool.pods, "pod"), cost(pool.pricePerHour)];
  if (pool.replicas !== null) facts.push(counted(pool.replicas, "replica"));
  if (pool.claims > 0) facts.push(`${pool.claims} on the way`);
  facts.push(...(pool.load ? extendedTexts(pool.load) : extendedOf(pool.members)));
  if (pool.deleting) facts.push("is being deleted");
  title.lastElementChild.textContent = facts.join(", ");
  problem.textContent = pool.notReady ? `not ready: ${pool.notReady}` : "";
  problem.hidden = !pool.notReady;
  updateLimits(limits, pool.limits);
  const order = orders[byId("sort").value];
  const own = picture.nodes.filter((node) => valueOf(node) === pool.name && matches(wordsOf(node)));
  own.sort((a, b) => order(a, b) || a.name.localeCompare(b.name));
  section.hidden = own.length === 0 && byId("filter").value !== "";
  const grouped = picture.matching > MANY_NODES;
  keyed(groups, grouped ? groupsOf(own) : [], (group) => group.name, makeGroup, updateGroup);
  keyed(boxes, grouped ? [] : own, (node) => node.name, makeBox, updateBox);
}

// Lists

function list(id, items, keyOf, update) {
  const section = byId(id);
  section.hidden = items.length === 0;
  keyed(section.querySelector("ul, ol"), items, keyOf, () => element("li"), update);
}

// What needs attention, or one line that nothing does.
function updateAttention() {
  const { attention } = picture;
  setText("attention-title", attention.length === 0 ? "Nothing needs attention" : `Needs attention (${attention.length})`);
  byId("attention-title").className = attention.length === 0 ? "good" : "";
  keyed(byId("attention").querySelector("ul"), attention, (one) => one.text, () => element("li"),
    (line, { text, since, urgent, object }) => {
      const parts = [{ text, tone: urgent ? "bad" : "notice" }];
      if (since !== null) parts.push({ text: ` for ${age(since)} ` });
      if (object !== null) parts.push(object);
      fill(line, parts);
    });
}

// Sets the content of a line; one that has not changed is kept, so that the focus stays.
function fill(line, parts) {
  const content = JSON.stringify(parts);
  if (line.dataset.content === content) return;
  line.dataset.content = content;
  line.replaceChildren(...parts.map((part) => (part.kind ? link(part) : element("span", { textContent: part.text, className: part.tone || "" }))));
}

function link({ kind, name, text }) {
  const button = element("button", { type: "button", className: "open", textContent: text || name });
  button.addEventListener("click", () => open(kind, name));
  return button;
}

function eventParts(event) {
  const full = event.namespace ? `${event.namespace}/${event.name}` : event.name;
  const kind = { Node: "node", Pod: "pod" }[event.kind];
  const object = kind ? [{ text: `${event.kind} ` }, { kind, name: full }] : [{ text: `${event.kind} ${full}` }];
  return { object, full };
}

function updateEvent(line, event) {
  const { object } = eventParts(event);
  const tone = event.type === "Warning" ? "notice" : "";
  const content = JSON.stringify(event) + age(event.time);
  if (line.dataset.content === content) return;
  const what = element("span");
  fill(what, [...object, { text: `: ${event.message}` }]);
  line.dataset.content = content;
  const time = element("time", { dateTime: event.time || "", title: event.time || "", textContent: `${age(event.time)} ago` });
  line.replaceChildren(time, element("span", { textContent: event.reason, className: tone }), what);
}

const entryKey = (entry) => [entry.time, entry.kind, entry.text].join("|");

// An entry of the time line.
function updateEntry(line, entry) {
  const content = JSON.stringify(entry) + age(entry.time);
  if (line.dataset.content === content) return;
  line.dataset.content = content;
  const tone = ["launch", "disruption"].includes(entry.kind) ? "" : "notice";
  const parts = [{ text: entry.followed === null ? entry.text : `${entry.text}; ${entry.followed}` }];
  if (entry.object !== null) parts.push({ text: " " }, entry.object);
  const what = element("span");
  fill(what, parts);
  const time = element("time", { dateTime: entry.time, title: entry.time, textContent: `${age(entry.time)} ago` });
  line.replaceChildren(time, element("span", { textContent: entry.kind, className: tone }), what);
}

function claimParts(claim) {
  const offering = [claim.instanceType, claim.capacityType, claim.zone].filter(Boolean).join(" ") || "not launched yet";
  const role = claim.replacement ? ", a replacement" : "";
  const what = claim.deleting ? "is being deleted" : `waits for ${claim.waitsFor}`;
  const why = claim.message ? `: ${claim.message}` : "";
  return [{ kind: "claim", name: claim.name }, { text: `  ${offering}${role}, ${what}${why}` }];
}

function disruptionItems({ nodes, replacements, commands, savingPerHour }) {
  const items = nodes.map((node) => ({
    key: node.node,
    parts: [{ kind: "node", name: node.node }, { text: ` is ${stateName(node.state)} (${node.reason || "reason not known"}), ${dollars(node.pricePerHour)}` }],
  }));
  for (const command of commands) {
    const text = `${command.replacements.join(", ")} replace ${command.nodes.join(", ")}`;
    items.push({ key: `command ${command.nodes.join(" ")}`, parts: [{ text }] });
  }
  const shown = new Set(commands.flatMap((command) => command.replacements));
  const others = replacements.filter((name) => !shown.has(name));
  if (others.length > 0) items.push({ key: "replacements", parts: [{ text: `replacements: ${others.join(", ")}` }] });
  if (savingPerHour !== null) {
    const text = savingPerHour < 0 ? `${dollars(-savingPerHour)} more` : `${dollars(savingPerHour)} saved`;
    items.push({ key: "saving", parts: [{ text: `together: ${text}`, tone: "good" }] });
  }
  return items;
}

function setText(id, text) {
  const target = byId(id);
  if (target.textContent !== text) target.textContent = text;
}

function totals() {
  const { totals: all } = picture;
  const special = Object.entries(all.states).filter(([state]) => state !== "ready").map(([state, count]) => `${count} ${stateName(state)}`);
  const nodes = counted(all.nodes, "node") + (special.length ? ` (${special.join(", ")})` : "");
  const claims = all.claims ? `, ${counted(all.claims, "NodeClaim")} on the way` : "";
  setText("totals", `${nodes}, ${counted(all.pods, "pod")}${claims}, ${counted(all.pendingPods, "pod")} without a node`);
  const unpriced = all.nodesWithoutPrice ? ` (without ${counted(all.nodesWithoutPrice, "node")}, whose price is not known)` : "";
  const use = (value) => (value === null ? "" : `, ${percent(value)} used`);
  const cpu = `${percent(cpuShare(all.load))} of CPU requested${use(cpuUse(all.load))}`;
  const mem = `${percent(memoryShare(all.load))} of memory requested${use(memoryUse(all.load))}`;
  setText("money", `${cost(all.pricePerHour)}${unpriced}; ${[cpu, mem, ...extendedTexts(all.load)].join(", ")}`);
  const { hidden } = picture;
  byId("hidden-nodes").hidden = hidden === null;
  if (hidden === null) return;
  const claimed = hidden.claims === 0 ? "" : ` and ${counted(hidden.claims, "NodeClaim")} on the way`;
  setText("hidden-nodes", `The selector ${hidden.selector} hides ${hidden.nodes} of ${counted(hidden.ofNodes, "node")} with `
    + `${counted(hidden.pods, "pod")}, ${dollars(hidden.pricePerHour)}${claimed}`);
}

function render() {
  if (!picture) return;
  setText("title", picture.title);
  document.title = picture.title;
  setText("prices", picture.prices);
  setText("trouble", picture.trouble || "");
  byId("trouble").hidden = !picture.trouble;
  totals();
  updateCluster();
  updateAttention();
  picture.matching = picture.nodes.filter((node) => matches(wordsOf(node))).length;
  byId("legend").hidden = picture.matching <= MANY_NODES;
  keyed(byId("pools"), sections(), (pool) => `${groupBy()} ${pool.name === null ? "none" : `of ${pool.name}`}`, makePool, updatePool);
  list("claims", picture.claims.filter((claim) => matches([claim.name, claim.nodePool, claim.instanceType])), (claim) => claim.name,
    (line, claim) => fill(line, claimParts(claim)));
  const pending = picture.pending.filter((pod) => matches([pod.namespace, pod.name, pod.reason]));
  list("pending", pending, (pod) => `${pod.namespace}/${pod.name}`,
    (line, pod) => fill(line, [{ kind: "pod", name: `${pod.namespace}/${pod.name}` }, { text: `, ${age(pod.created)}: ` }, { text: pod.reason, tone: pod.nominated ? "good" : "notice" }]));
  list("disruption", disruptionItems(picture.disruption), (item) => item.key, (line, item) => fill(line, item.parts));
  list("reservations", picture.reservations.filter((one) => matches([one.text])), (one) => one.id,
    (line, one) => fill(line, [{ text: one.text, tone: one.state === "active" ? "" : "notice" }]));
  const entries = picture.timeline.filter((entry) => matches([entry.text, entry.kind]));
  keyed(byId("timeline").querySelector("ol"), entries, entryKey, () => element("li"), updateEntry);
  const events = picture.events.filter((event) => matches([event.name, event.reason, event.message, event.namespace]));
  list("events", byId("all-events").checked ? events : [], eventKey, updateEvent);
  list("warnings", picture.warnings, (warning) => warning, (line, warning) => fill(line, [{ text: warning, tone: "bad" }]));
  if (opened) renderDetails();
}

// Details

function facts(entries) {
  const rows = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  byId("facts").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", { textContent: name }), element("dd", { textContent: value })]));
}

function amounts(load) {
  const used = (value) => (load.used === null ? "" : `, ${value(load.used)} used`);
  const cpu = `${cpus(load.requested.cpuMillicores)} of ${cpus(load.allocatable.cpuMillicores)} requested (${percent(cpuShare(load))})`;
  const mem = `${memory(load.requested.memoryBytes)} of ${memory(load.allocatable.memoryBytes)} requested (${percent(memoryShare(load))})`;
  return [["CPU", cpu + used((it) => cpus(it.cpuMillicores))], ["memory", mem + used((it) => memory(it.memoryBytes))],
    ...extended(load).map(([name, text]) => [name, `${text.replace("/", " of ")} requested`])];
}

function nodeFacts(node) {
  const offering = [node.instanceType, node.capacityType, node.zone].filter(Boolean).join(" ");
  return [
    ["NodePool", node.nodePool], ["NodeClaim", node.nodeClaim], ["instance", `${offering} ${cost(node.pricePerHour)}`],
    ["age", age(node.created)], ["state", stateText(node)], ["joining", node.joining],
    ...node.waitsFor.map(({ pod, why }) => ["waits for", `${pod}: ${why}`]),
    ...node.protectedBy.map((by) => ["protected by", `karpenter.sh/do-not-disrupt of ${by}`]),
    ["drift", node.drifted], ["consolidatable", node.consolidatable ? "consolidateAfter of its NodePool has passed" : null],
    ["expires", node.expires && `in ${span(secondsUntil(node.expires))}, at ${node.expires}`], ...amounts(node.load), ...Object.entries(node.labels),
  ];
}

function podFacts(name) {
  const waiting = picture.pending.find((pod) => `${pod.namespace}/${pod.name}` === name);
  if (waiting) {
    return [["requests", requests(waiting)], ["age", age(waiting.created)], ["no node because", waiting.reason]];
  }
  for (const node of picture.nodes) {
    const pod = node.pods.find((one) => `${one.namespace}/${one.name}` === name);
    if (pod) {
      return [["node", node.name], ["requests", requests(pod)], ["phase", pod.phase], ["age", age(pod.created)]];
    }
  }
  return [["state", "it does not exist any more, or it has ended"]];
}

function claimFacts(claim) {
  const offering = [claim.instanceType, claim.capacityType, claim.zone].filter(Boolean).join(" ");
  return [
    ["NodePool", claim.nodePool], ["instance", offering], ["price", claim.pricePerHour === null ? null : dollars(claim.pricePerHour)],
    ["age", age(claim.created)], ["waits for", claim.waitsFor], ["because", claim.message],
  ];
}

// The line of a pod of a node.
function podParts(pod, node) {
  const name = `${pod.namespace}/${pod.name}`;
  const facts = [[pod.daemonSet, "DaemonSet"], [pod.terminating, "being deleted"], [node.protectedBy.includes(`Pod ${name}`), "protected"]];
  const also = facts.filter(([holds]) => holds).map(([, text]) => `, ${text}`);
  return [{ kind: "pod", name }, { text: `  ${requests(pod)}, ${pod.phase}, ${age(pod.created)}${also.join("")}` }];
}

// The Events about the object that is open, and of a node also those about its NodeClaim.
function ownEvents(node) {
  const names = { Node: opened.kind === "node" ? opened.name : null, Pod: opened.kind === "pod" ? opened.name : null };
  names.NodeClaim = node ? node.nodeClaim : opened.kind === "claim" ? opened.name : null;
  return picture.events.filter((event) => names[event.kind] && eventParts(event).full === names[event.kind]);
}

const eventKey = (event) => [event.time, event.kind, event.namespace, event.name, event.reason, event.message].join("|");

function renderDetails() {
  const { kind, name } = opened;
  setText("details-title", `${{ node: "Node", pod: "Pod", claim: "NodeClaim" }[kind]} ${name}`);
  const node = kind === "node" ? picture.nodes.find((one) => one.name === name) : null;
  const claim = kind === "claim" ? picture.claims.find((one) => one.name === name) : null;
  const joined = kind === "claim" && !claim ? picture.nodes.find((one) => one.nodeClaim === name) : null;
  if (node) facts(nodeFacts(node));
  else if (kind === "pod") facts(podFacts(name));
  else if (claim) facts(claimFacts(claim));
  else if (joined) facts([["node", joined.name], ["state", "its node has joined"]]);
  else facts([["state", "it does not exist any more"]]);
  setText("answer", answerOf(kind, name, node, claim));
  byId("pods-title").hidden = !node;
  byId("pods").hidden = !node;
  keyed(byId("pods"), node ? node.pods : [], (pod) => `${pod.namespace}/${pod.name}`, () => element("li"),
    (line, pod) => fill(line, podParts(pod, node)));
  const own = ownEvents(node);
  byId("own-events-title").hidden = own.length === 0;
  keyed(byId("own-events"), own, eventKey, () => element("li"), updateEvent);
}

// The state of the object that is open, in one sentence.
function answerOf(kind, name, node, claim) {
  const problem = picture.attention.find(({ object }) => object !== null && object.kind === kind && object.name === name);
  if (problem) return `${problem.text}.`;
  if (node) {
    const cost = node.pricePerHour === null ? "" : `, costs ${dollars(node.pricePerHour)}`;
    return `It is ${stateName(node.state)}${cost} and runs ${counted(node.pods.length, "pod")}, with `
      + `${percent(cpuShare(node.load))} of its CPU and ${percent(memoryShare(node.load))} of its memory requested.`;
  }
  if (claim) return `It waits for ${claim.waitsFor}${claim.message ? `: ${claim.message}` : ""}.`;
  if (kind !== "pod") return "";
  const waiting = picture.pending.find((pod) => `${pod.namespace}/${pod.name}` === name);
  if (waiting) return `It has no node: ${waiting.reason}.`;
  const host = picture.nodes.find((one) => one.pods.some((pod) => `${pod.namespace}/${pod.name}` === name));
  return host ? `It is on node ${host.name}, which is ${stateName(host.state)}.` : "";
}

// The first line of an explanation, and the first reason below it.
function firstSentence([first, reason]) {
  if (!reason || !reason.startsWith(" ")) return first;
  return reason.trim().startsWith("because") ? `${first} ${reason.trim()}` : `${first}: ${reason.trim()}`;
}

async function open(kind, name) {
  opened = { kind, name };
  renderDetails();
  const dialog = byId("details");
  if (!dialog.open) dialog.showModal();
  const own = ++explanations;
  byId("plan").open = false;
  let lines = ["A plan is being made ..."];
  const show = () => {
    setText("plan-answer", firstSentence(lines));
    setText("explanation", lines.join("\n"));
  };
  show();
  try {
    const response = await fetch(`/api/explain?kind=${kind}&name=${encodeURIComponent(name)}`);
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    ({ lines } = await response.json());
  } catch (error) {
    lines = [`The explanation cannot be read: ${error.message}`];
  }
  // Another object may have been opened since.
  if (own === explanations) show();
}

byId("details").addEventListener("close", () => {
  opened = null;
  explanations += 1;
});

// Keys

function neighbour(from, key) {
  const boxes = [...document.querySelectorAll("button.node")].filter((box) => box.offsetParent !== null);
  const index = boxes.indexOf(from);
  if (key === "Home") return boxes[0];
  if (key === "End") return boxes[boxes.length - 1];
  if (key === "ArrowRight") return boxes[index + 1];
  if (key === "ArrowLeft") return boxes[index - 1];
  const here = from.getBoundingClientRect();
  const down = key === "ArrowDown";
  const rows = (down ? boxes.slice(index + 1) : boxes.slice(0, index).reverse())
    .filter((box) => Math.abs(box.getBoundingClientRect().left - here.left) < 2);
  return rows[0];
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select");
  if (event.key === "/" && !typing && !byId("details").open) {
    event.preventDefault();
    byId("filter").focus();
  } else if (event.key === "b" && !typing && !byId("details").open && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const choice = byId("group-by");
    choice.selectedIndex = (choice.selectedIndex + 1) % choice.options.length;
    render();
  } else if (event.target.matches("button.node") && ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
    const next = neighbour(event.target, event.key);
    event.preventDefault();
    if (next) next.focus();
  } else if (event.key === "Escape" && event.target === byId("filter")) {
    byId("filter").value = "";
    render();
  }
});

byId("tools").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", render);
byId("sort").addEventListener("change", render);
byId("group-by").addEventListener("change", render);
byId("all-events").addEventListener("change", render);

// The picture. A request waits on the server until there is a newer one.

async function follow() {
  for (let revision = 0; ;) {
    try {
      const response = await fetch(`/api/picture?after=${revision}`);
      if (response.status === 204) continue;
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      const first = picture === null;
      picture = await response.json();
      if (first) byId("group-by").value = picture.groupBy;
      picture.received = performance.now();
      revision = picture.revision;
      render();
    } catch (error) {
      setText("trouble", `nodeless view does not answer: ${error.message}; is it still running?`);
      byId("trouble").hidden = false;
      revision = 0;
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
}

follow();
setInterval(render, 10000);
