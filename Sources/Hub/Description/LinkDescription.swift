/// The part of the API's description that is about links for people without an account.
enum LinkDescription {
    static let paths = #"""
        {
          "/v1/volumes/{volume}/links": {
            "get": {
              "operationId": "links",
              "summary": "Lists the links to documents of the volume, the newest first: all for \#
        its owner, and for others their own.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "responses": {
                "200": {
                  "description": "The links.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/ShareLinkList"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"}
              }
            },
            "post": {
              "operationId": "changeLinks",
              "summary": "Makes a link, which the owner and editors may, or revokes one. The \#
        owner revokes all links, and others their own.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/ShareLinkRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "The new link with its token, or the links that are left.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/ShareLinkList"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "403": {"$ref": "#/components/responses/Forbidden"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"},
                "500": {"$ref": "#/components/responses/Failed"},
                "503": {"$ref": "#/components/responses/Busy"},
                "507": {"$ref": "#/components/responses/Full"}
              }
            }
          }
        }
        """#

    static let schemas = #"""
        {
          "ShareLink": {
            "type": "object",
            "properties": {
              "id": {"$ref": "#/components/schemas/Id"},
              "item": {"$ref": "#/components/schemas/Id"},
              "path": {"type": "string", "description": "The document's path in the volume."},
              "maker": {"type": "string", "description": "The user who made the link."},
              "edits": {"type": "boolean", "description": "Whether visitors may save."},
              "hasPassword": {"type": "boolean"},
              "made": {"$ref": "#/components/schemas/Time"},
              "ends": {"$ref": "#/components/schemas/Time"},
              "used": {"$ref": "#/components/schemas/Time"},
              "hasEnded": {"type": "boolean"},
              "isDeleted": {"type": "boolean", "description": "Whether the document is deleted."}
            },
            "required": [
              "id", "item", "path", "maker", "edits", "hasPassword", "made", "hasEnded",
              "isDeleted"
            ]
          },
          "ShareLinkList": {
            "type": "object",
            "properties": {
              "links": {"type": "array", "items": {"$ref": "#/components/schemas/ShareLink"}},
              "token": {
                "type": "string",
                "description": "Of a link that was just made: its address is /s/ and the token. \#
        The hub keeps only a hash, and cannot tell it again."
              }
            },
            "required": ["links"]
          },
          "ShareLinkRequest": {
            "type": "object",
            "properties": {
              "change": {"type": "string", "enum": ["make", "revoke"]},
              "id": {"$ref": "#/components/schemas/Id"},
              "item": {"$ref": "#/components/schemas/Id"},
              "edits": {"type": "boolean"},
              "password": {"type": "string", "minLength": 8, "maxLength": 255},
              "ends": {"$ref": "#/components/schemas/Time"}
            },
            "required": ["change"],
            "description": "To make a link: an item, and nothing or more of edits, password and \#
        ends. To revoke one: its id."
          }
        }
        """#
}
