// A webhook receiver as somebody else would write it: it verifies with the public library, writes down what it has taken,
// and only then says yes. How it behaves is set by PUT /control, kept in a file, and so survives its restarts.
"use strict";
const fs = require("fs");
const http = require("http");
const path = require("path");

const library = path.join(process.env.LANDFALL_STANDARDWEBHOOKS, "node_modules", "standardwebhooks");
const { Webhook } = require(library);
const [port, folder] = process.argv.slice(2);
const takenFile = path.join(folder, "taken.jsonl");
const controlFile = path.join(folder, "control.json");

const read = (file, otherwise) => (fs.existsSync(file) ? fs.readFileSync(file, "utf8") : otherwise);
let control = JSON.parse(read(controlFile, '{"mode":"well","secret":""}'));
let count = 0;

const answer = (response, status, body, headers) => {
  response.writeHead(status, headers || {});
  response.end(body || "");
};

const verifies = (body, headers) => {
  try {
    new Webhook(control.secret).verify(body, headers);
    return true;
  } catch (error) {
    return false;
  }
};

function take(request, body, response, status) {
  const signatures = request.headers["webhook-signature"].split(" ").length;
  // The signature is for this body at this time, and for no other.
  const later = { ...request.headers, "webhook-timestamp": String(Number(request.headers["webhook-timestamp"]) + 1) };
  const verified = verifies(body, request.headers) && !verifies(body, later) && !verifies(body + " ", request.headers);
  const line = { id: request.headers["webhook-id"], verified, signatures, status, body: JSON.parse(body) };
  fs.appendFileSync(takenFile, JSON.stringify(line) + "\n");
  if (verified && status === 0) return; // Taken, and never said: the sender cannot know.
  answer(response, verified ? status : 401, verified ? "" : "the signature is wrong");
}

function behave(request, body, response) {
  count += 1;
  switch (control.mode) {
    case "well":
      return take(request, body, response, 204);
    case "fails":
      return answer(response, 500, "the receiver's database is down");
    case "is gone":
      return answer(response, 410);
    case "is busy":
      return answer(response, 429, "", { "retry-after": "1" });
    case "moved":
      return answer(response, 307, "", { location: `http://127.0.0.1:${port}/elsewhere` });
    case "hangs":
      return;
    case "cannot take one":
      return body.includes(control.poison) ? answer(response, 500, "not this one") : take(request, body, response, 204);
    case "everything goes wrong at times":
      if (count % 97 === 0) return; // Hangs.
      if (count % 89 === 0) return take(request, body, response, 0);
      if (count % 7 === 0) return answer(response, 503, "try again");
      if (count % 61 === 0) return request.socket.destroy();
      if (count % 11 === 0) return setTimeout(() => take(request, body, response, 200), 60);
      return take(request, body, response, 204);
    default:
      return answer(response, 500, `unknown mode ${control.mode}`);
  }
}

http
  .createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString("utf8");
      if (request.method === "PUT" && request.url === "/control") {
        control = { ...control, ...JSON.parse(body) };
        fs.writeFileSync(controlFile, JSON.stringify(control));
        return answer(response, 204);
      }
      if (request.method === "GET" && request.url === "/count") return answer(response, 200, JSON.stringify(count));
      return behave(request, body, response);
    });
  })
  .listen(Number(port), "127.0.0.1");
