/// The part of the API's description that is about the members of volumes.
enum MemberDescription {
    static let paths = #"""
        {
          "/v1/volumes/{volume}/members": {
            "get": {
              "operationId": "members",
              "summary": "Lists the volume's members, the owner first.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "responses": {
                "200": {
                  "description": "The members.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/MemberList"}}
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
              "operationId": "changeMembers",
              "summary": "Adds or removes a member, or changes the role. Only the owner may, but \#
        every other member may leave.",
              "parameters": [{"$ref": "#/components/parameters/Volume"}],
              "requestBody": {
                "required": true,
                "content": {
                  "application/json": {"schema": {"$ref": "#/components/schemas/MemberRequest"}}
                }
              },
              "responses": {
                "200": {
                  "description": "The members after the change; none for an account that has left.",
                  "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/MemberList"}}
                  }
                },
                "400": {"$ref": "#/components/responses/Malformed"},
                "401": {"$ref": "#/components/responses/Unauthenticated"},
                "403": {"$ref": "#/components/responses/Forbidden"},
                "404": {"$ref": "#/components/responses/NotFound"},
                "405": {"$ref": "#/components/responses/Method"},
                "409": {"$ref": "#/components/responses/Conflict"},
                "413": {"$ref": "#/components/responses/TooLarge"},
                "415": {"$ref": "#/components/responses/ContentType"},
                "429": {"$ref": "#/components/responses/TooMany"},
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
          "Role": {"type": "string", "enum": ["reader", "editor", "owner"]},
          "Member": {
            "type": "object",
            "properties": {
              "user": {"type": "string"},
              "role": {"$ref": "#/components/schemas/Role"},
              "since": {"$ref": "#/components/schemas/Time"},
              "isSelf": {"type": "boolean"},
              "folder": {
                "type": "string",
                "description": "The path of the folder that the member sees, below what the \#
        asking account sees. Left out for a member who sees all of that."
              }
            },
            "required": ["user", "role", "since", "isSelf"]
          },
          "MemberList": {
            "type": "object",
            "properties": {
              "members": {"type": "array", "items": {"$ref": "#/components/schemas/Member"}}
            },
            "required": ["members"]
          },
          "MemberRequest": {
            "type": "object",
            "properties": {
              "change": {"type": "string", "enum": ["add", "role", "remove"]},
              "user": {"type": "string", "maxLength": 255},
              "role": {
                "type": "string",
                "enum": ["reader", "editor"],
                "description": "Left out if the member is removed."
              },
              "folder": {"$ref": "#/components/schemas/Id"}
            },
            "required": ["change", "user"]
          }
        }
        """#
}
