// Preloaded into the vendor's deploy tool, which reads more of a tenant than the sandbox has: lists
// that have nothing to do with orgops are empty, and every other request goes to the sandbox.
const send = globalThis.fetch;
const others = /^\/api\/v2\/(?:organizations\/[^/]+\/(connections|enabled_connections|client-grants)|(clients|client-grants|connections))$/;

globalThis.fetch = async (input, init) => {
  const request = new Request(input, init);
  const found = new URL(request.url).pathname.match(others);
  if (found && request.method === "GET") {
    const member = (found[1] ?? found[2]).replace("-", "_");
    return Response.json({[member]: [], start: 0, limit: 100, total: 0});
  }
  return send(input, init);
};
