// SPDX-License-Identifier: MIT
// One request to the console of an azsim or an azsim-proxy.
'use strict';

const http = require('http');

// ask: the text of the answer; anything but 200 is an error.
function ask(port, method, path, body = '') {
  return new Promise((resolve, reject) => {
    const request = http.request({
      host: '127.0.0.1', port, method, path, agent: false,
      headers: {'Content-Length': Buffer.byteLength(body)},
    }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => (text += part));
      response.on('end', () => response.statusCode === 200 ? resolve(text) :
        reject(new Error(`${path}: ${response.statusCode} ${text}`)));
      response.on('error', reject);
    });
    request.on('error', reject);
    request.end(body);
  });
}

module.exports = {ask};
