// SPDX-License-Identifier: MIT
// HTTP requests to a server on this machine, without a client library.
'use strict';

const http = require('http');

// request: sends a request; returns {status, headers, body} of the response.
function request(port, method, path,
    {headers = {}, body = '', agent = false} = {}) {
  return new Promise((resolve, reject) => {
    const asked = http.request({
      host: '127.0.0.1', port, method, path, agent,
      headers: {'Content-Length': Buffer.byteLength(body), ...headers},
    }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part) => (text += part));
      answer.on('end', () => resolve(
          {status: answer.statusCode, headers: answer.headers, body: text}));
      answer.on('error', reject);
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

// ask: returns the body of the response of an azsim or an azsim-proxy; throws
// unless the status is 200.
async function ask(port, method, path, body) {
  const answer = await request(port, method, path, {body});
  if (answer.status !== 200)
    throw new Error(`${path}: ${answer.status} ${answer.body}`);
  return answer.body;
}

module.exports = {ask, request};
