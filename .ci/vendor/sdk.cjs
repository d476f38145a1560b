// Uses the sandbox by the vendor's SDK for Node, as a program of a tenant's would: each operation of
// orgops, the reads that it makes, and an error. It finds the SDK from the working directory, and the
// sandbox by the settings that `worker sandbox` prints.
const assert = require("node:assert/strict");
const path = require("node:path");
const {ManagementClient} = require(require.resolve("auth0", {paths: [process.cwd()]}));
const {ORGOPS_AUTH_URL, ORGOPS_CLIENT_ID, ORGOPS_CLIENT_SECRET} = process.env;

async function rows(name) {
  const answer = await fetch(`${ORGOPS_AUTH_URL}/_sandbox/rows/${name}?n=2`);
  assert.equal(answer.status, 200);
  return (await answer.text()).trim().split("\n");
}

async function main() {
  // The SDK takes a name, to which it adds https, /api/v2/ and the audience.
  const client = new ManagementClient({
    domain: new URL(ORGOPS_AUTH_URL).host,
    clientId: ORGOPS_CLIENT_ID,
    clientSecret: ORGOPS_CLIENT_SECRET,
  });
  const {organizations} = client;

  const [, domainRow] = await rows("domains.csv");
  const [org, id] = domainRow.split(",");
  const listed = (await organizations.list({take: 50})).data.map((o) => o.id);
  assert.ok(listed.includes(org), `organizations: ${listed}`);
  const domains = (await organizations.discoveryDomains.list(org)).data;
  const pending = domains.find((d) => d.id === id);
  assert.equal(pending.status, "pending");
  assert.match(pending.verification_txt, /^[0-9a-f]{32}$/);
  assert.deepEqual(await organizations.discoveryDomains.get(org, id), pending);
  const verified = await organizations.discoveryDomains.update(org, id, {status: "verified"});
  assert.deepEqual(verified, {...pending, status: "verified"});

  const [, clientRow] = await rows("clients.csv");
  const [owner, removed] = clientRow.split(",");
  const ids = async () => (await organizations.clients.list(owner)).data.map((c) => c.client_id);
  assert.ok((await ids()).includes(removed));
  await organizations.clients.delete(owner, {clients: [removed]});
  assert.ok(!(await ids()).includes(removed));

  const {templates} = client.verifiableCredentials.verification;
  const [template] = (await rows("templates.jsonl")).map((line) => JSON.parse(line));
  const created = await templates.create(template);
  assert.equal(created.name, template.name);
  assert.ok((await templates.list()).data.some((t) => t.id === created.id));

  await assert.rejects(organizations.discoveryDomains.get(org, "ord_1234567890123456789012"),
    (err) => err.statusCode === 404 && err.body.message === "No organization domain found by that id");
  console.log(`auth0 ${require(path.resolve("node_modules/auth0/package.json")).version}: each operation, as its answers say`);
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
