// SPDX-License-Identifier: MIT
// A token server that acts as Azure's: as the metadata service of a machine
// (IMDS), as that of an app, and as the authority that exchanges a cluster's
// token for the access token of a workload. Azurite accepts its tokens with
// `--oauth basic`, which checks audience, issuer and times, but not the
// signature.
'use strict';

const crypto = require('crypto');
const http = require('http');
const secrets = require('./secrets');

const CLIENT = '11111111-2222-3333-4444-555555555555';
const TENANT = '66666666-7777-8888-9999-000000000000';
const RESOURCE = 'https://storage.azure.com/';

class TokenServer {
  lives_s = 3600;       // lifetime of the tokens that it issues from now on
  promises_s = undefined; // the lifetime that it states; undefined: lives_s
  down = false;         // it answers 503
  refuses = false;      // it answers 400
  silent = false;       // it accepts requests and never responds
  tokens = [];          // all tokens that it has issued
  asked = 0;            // requests, served or not
  header = `header-${crypto.randomUUID()}`;
  assertion = `assertion.${crypto.randomBytes(60).toString('base64url')}`;

  static async start() {
    const server = new TokenServer();
    secrets.keep(server.header);
    secrets.keep(server.assertion);
    server.http = http.createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (text) => (body += text));
      request.on('end', () => server.#answer(request, body, response));
    });
    await new Promise((resolve) =>
      server.http.listen(0, '127.0.0.1', resolve));
    server.origin = `http://127.0.0.1:${server.http.address().port}`;
    return server;
  }

  stop() {
    this.http.close();
    this.http.closeAllConnections();
  }

  // secrets: returns the texts that no log may show.
  secrets() {
    return [...this.tokens, this.header, this.assertion];
  }

  // env: returns the environment variables by which an identity of this kind
  // finds the server. file: the file with the cluster's token.
  env(kind, file) {
    return {
      machine: {AZURE_POD_IDENTITY_AUTHORITY_HOST: this.origin},
      app: {
        IDENTITY_ENDPOINT: `${this.origin}/msi/token`,
        IDENTITY_HEADER: this.header,
      },
      workload: {
        AZURE_AUTHORITY_HOST: `${this.origin}/`, AZURE_TENANT_ID: TENANT,
        AZURE_CLIENT_ID: CLIENT, AZURE_FEDERATED_TOKEN_FILE: file,
      },
    }[kind];
  }

  #answer(request, body, response) {
    const say = (status, answer) => {
      response.writeHead(status, {'Content-Type': 'application/json'});
      response.end(JSON.stringify(answer));
    };
    this.asked++;
    if (this.silent) return;
    if (this.down) return say(503, {error: 'unavailable'});
    if (this.refuses || !this.#knows(request, body))
      return say(400, {
        error: 'invalid_request', error_description: 'Identity not found',
      });
    say(200, this.#token(request.method === 'POST'));
  }

  // True if the request is as Azure's documentation requires.
  #knows(request, body) {
    const url = new URL(request.url, this.origin), {headers} = request;
    const asks = url.searchParams.get('resource') === RESOURCE;
    const form = new URLSearchParams(body);
    switch (`${request.method} ${url.pathname}`) {
      case 'GET /metadata/identity/oauth2/token':
        return asks && headers.metadata === 'true' &&
            url.searchParams.get('api-version') === '2018-02-01';
      case 'GET /msi/token':
        return asks && headers['x-identity-header'] === this.header &&
            url.searchParams.get('api-version') === '2019-08-01';
      case `POST /${TENANT}/oauth2/v2.0/token`:
        return form.get('grant_type') === 'client_credentials' &&
            form.get('client_id') === CLIENT &&
            form.get('scope') === `${RESOURCE}.default` &&
            form.get('client_assertion_type') ===
                'urn:ietf:params:oauth:client-assertion-type:jwt-bearer' &&
            form.get('client_assertion') === this.assertion;
      default:
        return false;
    }
  }

  // Returns a token response. A metadata service sends numbers as strings, an
  // authority as numbers.
  #token(authority) {
    const now_s = Math.ceil(Date.now() / 1000);
    const part = (value) =>
        Buffer.from(JSON.stringify(value)).toString('base64url');
    const token = [
      part({typ: 'JWT', alg: 'RS256'}),
      part({
        aud: RESOURCE, iss: `https://sts.windows.net/${TENANT}/`,
        iat: now_s - 300, nbf: now_s - 300, exp: now_s + this.lives_s,
        oid: crypto.randomUUID(),
      }),
      crypto.randomBytes(256).toString('base64url'),
    ].join('.');
    const expires_in = this.promises_s ?? this.lives_s;
    this.tokens.push(token);
    secrets.keep(token);
    return authority ?
      {token_type: 'Bearer', expires_in, access_token: token} : {
        access_token: token, token_type: 'Bearer', resource: RESOURCE,
        expires_in: String(expires_in), expires_on: String(now_s + expires_in),
      };
  }
}

module.exports = {TokenServer, CLIENT};
